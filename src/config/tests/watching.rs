//! A change is noticed, however the file is saved, and other files cause none.

use super::*;
use crate::config::Sources;

fn sources(directory: &Path) -> Sources {
    Sources {
        file: directory.join("config.toml"),
        ..Sources::default()
    }
}

async fn noticed(watch: &mut Watch) -> bool {
    tokio::time::timeout(Duration::from_secs(5), watch.changed())
        .await
        .is_ok()
}

async fn quiet(watch: &mut Watch) -> bool {
    let limit = Duration::from_millis(400);
    tokio::time::timeout(limit, watch.changed()).await.is_err()
}

#[tokio::test]
async fn a_change_is_noticed_however_it_is_saved() {
    let temp = tempfile::tempdir().unwrap();
    let sources = sources(temp.path());
    fs::write(&sources.file, "[queue]\nmax_waiting = 4\n").unwrap();
    let (mut watch, error) = Watch::start(&sources.file);
    assert!(error.is_none(), "{error:?}");
    fs::write(&sources.file, "[queue]\nmax_waiting = 5\n").unwrap();
    assert!(noticed(&mut watch).await, "written in place");
    sources.edit("queue.max_waiting", Some(&6.into())).unwrap();
    assert!(noticed(&mut watch).await, "renamed over");
    fs::remove_file(&sources.file).unwrap();
    assert!(noticed(&mut watch).await, "removed");
    fs::write(&sources.file, "# again\n").unwrap();
    assert!(noticed(&mut watch).await, "created again");
}

#[tokio::test]
async fn reading_the_file_and_writing_others_is_no_change() {
    let temp = tempfile::tempdir().unwrap();
    let sources = sources(temp.path());
    fs::write(&sources.file, "# mine\n").unwrap();
    let (mut watch, _) = Watch::start(&sources.file);
    sources.load().unwrap();
    fs::write(temp.path().join("config.toml.good"), "x").unwrap();
    assert!(quiet(&mut watch).await, "a reload must not cause a reload");
}

#[tokio::test]
async fn the_directory_above_is_not_watched() {
    let temp = tempfile::tempdir().unwrap();
    let directory = temp.path().join("oneslot");
    fs::create_dir(&directory).unwrap();
    let watched = entries(&directory.join("config.toml")).unwrap();
    let temp = fs::canonicalize(temp.path()).unwrap();
    assert!(
        watched.iter().all(|entry| entry.directory != temp),
        "{watched:?}"
    );
}

#[tokio::test]
async fn a_file_that_does_not_exist_yet_is_noticed_when_it_is_created() {
    let temp = tempfile::tempdir().unwrap();
    let sources = sources(&temp.path().join("not/yet"));
    let (mut watch, error) = Watch::start(&sources.file);
    assert!(error.is_none(), "{error:?}");
    sources.edit("queue.max_waiting", Some(&6.into())).unwrap();
    assert!(noticed(&mut watch).await);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_directory_that_is_replaced_is_a_change() {
    let temp = tempfile::tempdir().unwrap();
    let (directory, other) = (temp.path().join("oneslot"), temp.path().join("other"));
    fs::create_dir(&directory).unwrap();
    fs::create_dir(&other).unwrap();
    let sources = sources(&directory);
    fs::write(&sources.file, "# mine\n").unwrap();
    let (mut watch, _) = Watch::start(&sources.file);
    fs::rename(&directory, temp.path().join("old")).unwrap();
    assert!(noticed(&mut watch).await, "moved away");
    fs::rename(&other, &directory).unwrap();
    assert!(noticed(&mut watch).await, "another in its place");
    fs::write(&sources.file, "# new\n").unwrap();
    assert!(noticed(&mut watch).await, "a file in it");
    fs::remove_dir_all(&directory).unwrap();
    assert!(noticed(&mut watch).await, "removed");
}

#[cfg(unix)]
mod paths {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_link_and_the_file_itself_are_entries() {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        fs::create_dir_all(root.join("v1/deep")).unwrap();
        fs::write(root.join("v1/deep/o.toml"), "").unwrap();
        symlink("v1", root.join("data")).unwrap();
        symlink("../data/deep/o.toml", root.join("v1/link.toml")).unwrap();
        let entry = |directory: PathBuf, name: &str| Entry {
            directory,
            name: name.into(),
        };
        assert_eq!(
            entries(&root.join("v1/link.toml")).unwrap(),
            [
                entry(root.join("v1"), "link.toml"),
                entry(root.clone(), "data"),
                entry(root.join("v1/deep"), "o.toml"),
            ]
        );
    }

    #[test]
    fn the_first_missing_name_is_the_last_entry() {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        let entries = entries(&root.join("not/yet/o.toml")).unwrap();
        let last = entries.last().unwrap();
        assert_eq!((&last.directory, last.name.to_str()), (&root, Some("not")));
    }

    #[test]
    fn a_circle_of_links_is_an_error() {
        let temp = tempfile::tempdir().unwrap();
        symlink("b", temp.path().join("a")).unwrap();
        symlink("a", temp.path().join("b")).unwrap();
        assert!(entries(&temp.path().join("a")).is_err());
    }
}
