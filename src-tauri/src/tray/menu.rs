//! The rows as the toolkit has them. Texts change in place; a row that comes or goes makes a new
//! menu, because an open one must not jump.

use tauri::menu::{CheckMenuItem, IsMenuItem, Menu, MenuItem, PredefinedMenuItem, Submenu};
use tauri::{AppHandle, Wry};

use crate::tray_face::{Kind, Login, Row};

use super::ids;

/// A menu that is drawn.
pub(super) struct Drawn {
    menu: Menu<Wry>,
    rows: Vec<Row>,
    items: Vec<Item>,
}

enum Item {
    Line(PredefinedMenuItem<Wry>),
    Press(MenuItem<Wry>),
    Tick(CheckMenuItem<Wry>),
    Rows(Submenu<Wry>, Vec<Item>),
}

impl Drawn {
    /// Draws these rows.
    pub(super) fn new(app: &AppHandle, rows: &[Row]) -> tauri::Result<Self> {
        let items = items(app, rows)?;
        let menu = Menu::new(app)?;
        for item in &items {
            menu.append(item.as_item())?;
        }
        Ok(Self {
            menu,
            rows: rows.to_vec(),
            items,
        })
    }

    /// The toolkit's menu.
    pub(super) fn menu(&self) -> &Menu<Wry> {
        &self.menu
    }

    /// Changes what differs. Gives `false`, with nothing changed, where rows come or go.
    pub(super) fn change(&mut self, rows: &[Row]) -> tauri::Result<bool> {
        if !same_rows(&self.rows, rows) {
            return Ok(false);
        }
        change(&self.items, &self.rows, rows)?;
        self.rows = rows.to_vec();
        Ok(true)
    }
}

fn items(app: &AppHandle, rows: &[Row]) -> tauri::Result<Vec<Item>> {
    rows.iter().map(|row| Item::new(app, row)).collect()
}

fn same_rows(old: &[Row], new: &[Row]) -> bool {
    let same = |(old, new): (&Row, &Row)| {
        old.action == new.action
            && match (&old.kind, &new.kind) {
                (Kind::Rows(old), Kind::Rows(new)) => same_rows(old, new),
                _ => true,
            }
    };
    old.len() == new.len() && old.iter().zip(new).all(same)
}

fn change(items: &[Item], old: &[Row], new: &[Row]) -> tauri::Result<()> {
    for (item, (old, new)) in items.iter().zip(old.iter().zip(new)) {
        // A ticked row may differ without a change of ours: the toolkit ticks it when it is pressed.
        if old != new || matches!(item, Item::Tick(_) | Item::Rows(..)) {
            item.change(old, new)?;
        }
    }
    Ok(())
}

impl Item {
    fn new(app: &AppHandle, row: &Row) -> tauri::Result<Self> {
        let id = ids::id(row.action);
        let text = escaped(&row.text);
        Ok(match &row.kind {
            Kind::Line => Self::Line(PredefinedMenuItem::separator(app)?),
            Kind::Words | Kind::Press | Kind::Resting => {
                let enabled = row.kind == Kind::Press;
                Self::Press(MenuItem::with_id(app, id, text, enabled, None::<&str>)?)
            }
            Kind::Tick(login) => {
                let ticked = *login == Login::Starts;
                let item = CheckMenuItem::with_id(app, id, text, true, ticked, None::<&str>)?;
                Self::Tick(item)
            }
            Kind::Rows(rows) => {
                let menu = Submenu::with_id(app, id, text, true)?;
                let inner = items(app, rows)?;
                for item in &inner {
                    menu.append(item.as_item())?;
                }
                Self::Rows(menu, inner)
            }
        })
    }

    fn as_item(&self) -> &dyn IsMenuItem<Wry> {
        match self {
            Self::Line(item) => item,
            Self::Press(item) => item,
            Self::Tick(item) => item,
            Self::Rows(item, _) => item,
        }
    }

    fn change(&self, old: &Row, new: &Row) -> tauri::Result<()> {
        let text = (old.text != new.text).then(|| escaped(&new.text));
        match self {
            Self::Line(_) => {}
            Self::Press(item) => {
                text.map_or(Ok(()), |text| item.set_text(text))?;
                if old.kind != new.kind {
                    item.set_enabled(new.kind == Kind::Press)?;
                }
            }
            Self::Tick(item) => {
                text.map_or(Ok(()), |text| item.set_text(text))?;
                // Whatever it says of itself: what a press does to it may be on its way.
                item.set_checked(new.kind == Kind::Tick(Login::Starts))?;
            }
            Self::Rows(menu, items) => {
                text.map_or(Ok(()), |text| menu.set_text(text))?;
                if let (Kind::Rows(old), Kind::Rows(new)) = (&old.kind, &new.kind) {
                    change(items, old, new)?;
                }
            }
        }
        Ok(())
    }
}

/// The toolkit takes `&` for the mark of a shortcut.
fn escaped(text: &str) -> String {
    text.replace('&', "&&")
}
