//! The words after `cargo xtask`, read into an order.

use crate::fault::Fault;
use crate::ledger::Form;
use crate::package::Then;
use crate::soak;
use crate::tray::Numbers;

/// What `cargo xtask help` prints.
pub(crate) const HELP: &str = "\
cargo xtask test              everything that a submission must pass
cargo xtask run [--model smollm2] [-- ARGS]
                              build and serve: the tray with its panel where there is a
                              display, else `oneslotd serve`; with --model, start a real
                              llama.cpp with a small chat model first and point the gateway
                              at it; ARGS go to the program
cargo xtask model [--port P] [--ctx N]
                              only that llama.cpp, in the foreground
                              (port 8080, window 2048 tokens unless told)
cargo xtask lint              formatting, clippy, dependencies' licences and sources
cargo xtask pressure [ARGS]   what memory pressure does to clients of a real model, with
                              OneSlot and without, as a table (Linux; some minutes)
cargo xtask readings [ARGS]   what reading memory costs, idle and busy (Linux)
cargo xtask panel             lint and test the panel alone
cargo xtask shots [PART]      a picture of every state of the panel, into .cache/shots; with PART,
                              of those with PART in their name; `shots readme` takes those that
                              the README shows, into ui/shots
cargo xtask icons             make icons/ anew from icons/source
cargo xtask soak [MINUTES]    random traffic, leavers and restarts for so long (20 unless told)
cargo xtask package [--verify]
                              a Debian package with both programs, in .cache; with --verify,
                              installed in a bare Debian, tried and removed (as root)
cargo xtask measure-tray [--open MINUTES]
                              size, memory and rest of both programs as they are shipped; with
                              --open, what the panel grows by while it is open for so long before
                              answers
cargo xtask setup             only bring what `test` and `run` need
cargo xtask load              floods at full size against an optimised gateway; prints memory,
                              descriptors and the slowest normal request (about ten minutes)
cargo xtask ledger [--write]  the table of promises and tests; --write puts it into
                              ARCHITECTURE.md
cargo xtask help              this text

Downloaded parts go to .cache/ in the working tree, or to the folder that ONESLOT_CACHE names.";

/// What the person wants done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Help,
    Test,
    Lint,
    Setup,
    Icons,
    Panel,
    Shots(Option<String>),
    Package(Then),
    MeasureTray(Numbers),
    Load,
    Ledger(Form),
    /// For so many minutes.
    Soak(u64),
    Model(ModelWish),
    Pressure(Vec<String>),
    Readings(Vec<String>),
    Run(RunWish),
}

/// How the model server shall start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ModelWish {
    /// TCP port on loopback; 0 lets the system choose.
    pub(crate) port: u16,
    /// The window, in tokens.
    pub(crate) ctx: u32,
}

/// How the gateway shall start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RunWish {
    /// The model server to bring along.
    pub(crate) upstream: Upstream,
    /// Words for `oneslotd serve`.
    pub(crate) args: Vec<String>,
}

/// Where `run` takes its model server from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Upstream {
    /// Whatever the gateway's own configuration finds.
    Configured,
    /// llama.cpp with the small chat model, started for this run and ended with it.
    SmolLm2,
}

/// Reads the words.
///
/// # Errors
/// [`Fault::Words`].
pub(crate) fn read(words: impl IntoIterator<Item = String>) -> Result<Order, Fault> {
    let mut words = words.into_iter();
    let command = words.next().unwrap_or_else(|| "help".to_owned());
    let rest: Vec<String> = words.collect();
    match command.as_str() {
        "help" | "--help" | "-h" => Ok(Order::Help),
        "test" => alone(&rest, Order::Test),
        "lint" => alone(&rest, Order::Lint),
        "pressure" => Ok(Order::Pressure(rest)),
        "readings" => Ok(Order::Readings(rest)),
        "setup" => alone(&rest, Order::Setup),
        "icons" => alone(&rest, Order::Icons),
        "panel" => alone(&rest, Order::Panel),
        "shots" => match rest.as_slice() {
            [] => Ok(Order::Shots(None)),
            [part] => Ok(Order::Shots(Some(part.clone()))),
            _ => Err(surplus(&rest)),
        },
        "load" => alone(&rest, Order::Load),
        "package" => match rest.as_slice() {
            [] => Ok(Order::Package(Then::Keep)),
            [word] if word == "--verify" => Ok(Order::Package(Then::Verify)),
            _ => Err(surplus(&rest)),
        },
        "measure-tray" => match rest.as_slice() {
            [] => Ok(Order::MeasureTray(Numbers::All)),
            [word, minutes] if word == "--open" => {
                let minutes = number(word, minutes)?;
                Ok(Order::MeasureTray(Numbers::OpenFor { minutes }))
            }
            _ => Err(surplus(&rest)),
        },
        "ledger" => match rest.as_slice() {
            [] => Ok(Order::Ledger(Form::Print)),
            [word] if word == "--write" => Ok(Order::Ledger(Form::Write)),
            _ => Err(surplus(&rest)),
        },
        "soak" => match rest.as_slice() {
            [] => Ok(Order::Soak(soak::MINUTES)),
            [minutes] => number("soak", minutes).map(Order::Soak),
            _ => Err(surplus(&rest)),
        },
        "model" => read_model(&rest).map(Order::Model),
        "run" => read_run(&rest).map(Order::Run),
        unknown => Err(Fault::Words(format!("there is no command `{unknown}`"))),
    }
}

fn read_model(words: &[String]) -> Result<ModelWish, Fault> {
    let mut wish = ModelWish {
        port: 8080,
        ctx: 2048,
    };
    for pair in words.chunks(2) {
        match pair {
            [name, value] if name == "--port" => wish.port = number(name, value)?,
            [name, value] if name == "--ctx" => wish.ctx = number(name, value)?,
            _ => return Err(surplus(pair)),
        }
    }
    Ok(wish)
}

fn read_run(words: &[String]) -> Result<RunWish, Fault> {
    let cut = words.iter().position(|word| word == "--");
    let (ours, theirs) = cut.map_or((words, &[][..]), |at| (&words[..at], &words[at + 1..]));
    let upstream = match ours {
        [] => Upstream::Configured,
        [name, value] if name == "--model" && value == "smollm2" => Upstream::SmolLm2,
        [name, value] if name == "--model" => {
            return Err(Fault::Words(format!(
                "there is no model `{value}` here; the one that can be brought is smollm2"
            )));
        }
        _ => return Err(surplus(ours)),
    };
    Ok(RunWish {
        upstream,
        args: theirs.to_vec(),
    })
}

fn number<N: std::str::FromStr>(name: &str, value: &str) -> Result<N, Fault> {
    value
        .parse()
        .map_err(|_| Fault::Words(format!("{name} wants a number, not `{value}`")))
}

fn alone(rest: &[String], order: Order) -> Result<Order, Fault> {
    if rest.is_empty() {
        Ok(order)
    } else {
        Err(surplus(rest))
    }
}

fn surplus(words: &[String]) -> Fault {
    Fault::Words(format!("`{}` is not understood here", words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(line: &str) -> Option<Order> {
        read(line.split_whitespace().map(str::to_owned)).ok()
    }

    #[test]
    fn what_follows_two_dashes_belongs_to_the_gateway() {
        let wish = RunWish {
            upstream: Upstream::SmolLm2,
            args: vec!["--listen".to_owned(), "127.0.0.1:0".to_owned()],
        };
        assert_eq!(
            order("run --model smollm2 -- --listen 127.0.0.1:0"),
            Some(Order::Run(wish)),
            "only the words before the dashes are ours"
        );
    }

    #[test]
    fn a_model_server_has_a_port_and_a_window_even_when_none_is_named() {
        let wish = |port, ctx| Some(Order::Model(ModelWish { port, ctx }));
        assert_eq!(
            order("model"),
            wish(8080, 2048),
            "the defaults stand in the help"
        );
        assert_eq!(
            order("model --ctx 512 --port 0"),
            wish(0, 512),
            "any order will do"
        );
    }

    #[test]
    fn a_soak_lasts_as_long_as_it_is_told() {
        assert_eq!(order("soak"), Some(Order::Soak(soak::MINUTES)));
        assert_eq!(order("soak 3"), Some(Order::Soak(3)));
        assert_eq!(order("soak long"), None);
    }

    #[test]
    fn a_word_that_is_not_understood_is_refused() {
        for line in [
            "tset",
            "test now",
            "measure-tray --open",
            "model --port",
            "model --port x",
            "run --model gpt",
        ] {
            assert_eq!(
                order(line),
                None,
                "`{line}` must not be taken for something else"
            );
        }
    }
}
