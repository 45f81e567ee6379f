//! A change is noticed, however the file is saved.

use std::time::Duration;

use super::*;

async fn noticed(watch: &mut Watch) -> bool {
    tokio::time::timeout(Duration::from_secs(5), watch.changed())
        .await
        .is_ok()
}

#[tokio::test]
async fn a_change_is_noticed_however_it_is_saved() {
    let desk = Desk::with("[queue]\nmax_waiting = 4\n");
    let (mut watch, error) = Watch::start(&desk.sources.file);
    assert!(error.is_none(), "{error:?}");
    desk.save("[queue]\nmax_waiting = 5\n");
    assert!(noticed(&mut watch).await, "written in place");
    desk.sources
        .edit("queue.max_waiting", Some(&Value::Whole(6)))
        .unwrap();
    assert!(noticed(&mut watch).await, "renamed over");
    fs::remove_file(&desk.sources.file).unwrap();
    assert!(noticed(&mut watch).await, "removed");
    desk.save("# again\n");
    assert!(noticed(&mut watch).await, "written anew");
}

#[tokio::test]
async fn reading_the_file_and_writing_others_is_no_change() {
    let desk = Desk::with("[queue]\nmax_waiting = 4\n");
    let (mut watch, _) = Watch::start(&desk.sources.file);
    desk.settings();
    fs::write(desk.temp.path().join("config.toml.good"), "x").unwrap();
    let quiet = tokio::time::timeout(Duration::from_millis(400), watch.changed()).await;
    assert!(
        quiet.is_err(),
        "a reload that caused a reload would never end"
    );
}

#[tokio::test]
async fn a_file_that_is_not_there_yet_is_noticed_when_it_comes() {
    let mut desk = Desk::new();
    desk.sources.file = desk.temp.path().join("not/yet/config.toml");
    let (mut watch, error) = Watch::start(&desk.sources.file);
    assert!(error.is_none(), "{error:?}");
    desk.sources
        .edit("queue.max_waiting", Some(&Value::Whole(6)))
        .unwrap();
    assert!(noticed(&mut watch).await);
}
