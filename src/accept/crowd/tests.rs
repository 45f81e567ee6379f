//! Who gives way, by a clock that stands.

use std::task::{Context, Waker};

use super::*;

#[tokio::test(start_paused = true)]
async fn the_longest_silent_gives_way_and_nobody_who_waits_for_an_answer_does() {
    let crowd = Crowd::of(2);
    let (busy, idle) = (Turn::new(), Turn::new());
    let busy_seat = crowd.seat(&busy).await.unwrap();
    busy.begin();
    let idle_seat = crowd.seat(&idle).await.unwrap();
    let newcomer = Turn::new();
    let (seat, ()) = tokio::join!(crowd.seat(&newcomer), async {
        idle_seat.wanted_back().await;
        drop(idle_seat);
    });
    assert!(seat.is_some(), "the idle one's place");
    let wanted = timeout(GRACE * 2, busy_seat.wanted_back()).await;
    assert!(wanted.is_err(), "a request under way is never given up");
}

#[tokio::test(start_paused = true)]
async fn of_bodies_the_slowest_gives_way_and_none_before_its_time() {
    let crowd = Crowd::of(3);
    let turns = [Turn::new(), Turn::new(), Turn::new()];
    let mut cx = Context::from_waker(Waker::noop());
    let mut seats = Vec::new();
    for (turn, bytes) in turns.iter().zip([5000, 10, 20]) {
        seats.push(crowd.seat(turn).await.unwrap());
        turn.begin();
        turn.received(bytes);
    }
    let [fast, slow, _unawaited] = &turns;
    let mut is_asked = |turn: &Turn| turn.poll_wanted_back(&mut cx).is_ready();
    assert!(!is_asked(fast) && !is_asked(slow), "nobody waits");
    let newcomer = Turn::new();
    let early = timeout(BODY_GRACE / 2, crowd.seat(&newcomer)).await;
    assert!(early.is_err() && !is_asked(slow), "it has just begun");
    let (seat, ()) = tokio::join!(crowd.seat(&newcomer), async {
        while !is_asked(slow) {
            assert!(!is_asked(fast), "the slowest goes first");
            tokio::time::sleep(LOOK).await;
        }
        seats.remove(1);
    });
    assert!(seat.is_some(), "the slow one's place");
    assert!(!is_asked(&turns[2]), "nobody waits for its client");
}

#[tokio::test(start_paused = true)]
async fn no_fast_body_gives_way_for_one_that_nobody_has_judged_yet() {
    let crowd = Crowd::of(2);
    let (fast, other) = (Turn::new(), Turn::new());
    let mut cx = Context::from_waker(Waker::noop());
    let mut is_asked = |turn: &Turn| turn.poll_wanted_back(&mut cx).is_ready();
    let _fast_seat = crowd.seat(&fast).await.unwrap();
    fast.begin();
    fast.received(5000);
    assert!(!is_asked(&fast), "nobody waits");
    tokio::time::advance(BODY_GRACE).await;

    let other_seat = crowd.seat(&other).await.unwrap();
    let newcomer = Turn::new();
    let unheard = timeout(GRACE / 2, crowd.seat(&newcomer)).await;
    assert!(
        unheard.is_err() && !is_asked(&fast),
        "it may send a slow one"
    );
    other.begin();
    for _ in 0..20 {
        other.received(1);
        let taken_in = timeout(BODY_GRACE / 2, crowd.seat(&newcomer)).await;
        assert!(
            taken_in.is_err() && !is_asked(&fast),
            "its byte is taken in"
        );
    }
    assert!(!is_asked(&other), "its rest is awaited");
    let (seat, ()) = tokio::join!(crowd.seat(&newcomer), async {
        while !is_asked(&other) {
            assert!(!is_asked(&fast), "the slow one goes");
            tokio::time::sleep(LOOK).await;
        }
        drop(other_seat);
    });
    assert!(seat.is_some());
}

/// That a slow body gives its place to a newcomer within this time, whatever somebody else does.
async fn gives_way(within: Duration, meanwhile: impl AsyncFn(&Arc<Turn>)) {
    let crowd = Crowd::of(2);
    let (somebody, slow) = (Turn::new(), Turn::new());
    let mut cx = Context::from_waker(Waker::noop());
    let mut is_asked = |turn: &Turn| turn.poll_wanted_back(&mut cx).is_ready();
    let _seat = crowd.seat(&somebody).await.unwrap();
    let slow_seat = crowd.seat(&slow).await.unwrap();
    slow.begin();
    slow.received(1000);
    assert!(!is_asked(&slow), "nobody waits");
    tokio::time::advance(BODY_GRACE).await;
    let goes = async {
        while !is_asked(&slow) {
            tokio::time::sleep(LOOK).await;
        }
        drop(slow_seat);
    };
    let newcomer = Turn::new();
    let seated = async { tokio::join!(crowd.seat(&newcomer), goes).0 };
    tokio::select! {
        // It has begun before anybody looks: silent until then, it would be asked first.
        biased;
        () = async { loop { meanwhile(&somebody).await } } => {}
        seat = timeout(within, seated) => assert!(seat.unwrap().is_some()),
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_again_and_again_shields_no_slow_body() {
    gives_way(SHIELD / 2, async |pinger| {
        pinger.begin();
        drop(pinger.answering());
        pinger.written();
        tokio::time::sleep(GRACE / 2).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn those_who_go_on_beginning_keep_nobody_at_the_door() {
    gives_way(SHIELD * 2, async |young| {
        young.begin();
        young.received(0);
        tokio::time::sleep(BODY_GRACE / 2).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_waits_for_room_here_shields_nobody_for_long() {
    let crowd = Crowd::of(2);
    let (steady, blocked) = (Turn::new(), Turn::new());
    let mut cx = Context::from_waker(Waker::noop());
    let mut seats = Vec::new();
    for (turn, bytes) in [(&steady, 5000), (&blocked, 10)] {
        seats.push(crowd.seat(turn).await.unwrap());
        turn.begin();
        turn.received(bytes);
    }
    let mut is_asked = |turn: &Turn| turn.poll_wanted_back(&mut cx).is_ready();
    assert!(!is_asked(&steady), "nobody waits");
    let newcomer = Turn::new();
    let (seat, ()) = tokio::join!(crowd.seat(&newcomer), async {
        while !is_asked(&steady) {
            tokio::time::sleep(LOOK).await;
        }
        seats.remove(0);
    });
    assert!(seat.is_some(), "the blocked one cannot be faster");
}

#[tokio::test(start_paused = true)]
async fn a_full_crowd_of_busy_connections_lets_nobody_in() {
    let crowd = Crowd::of(1);
    let busy = Turn::new();
    let seat = crowd.seat(&busy).await.unwrap();
    busy.begin();
    let newcomer = Turn::new();
    let waiting = timeout(Duration::from_secs(60), crowd.seat(&newcomer)).await;
    assert!(waiting.is_err(), "it waits at the door");
    drop(seat);
    assert!(crowd.seat(&newcomer).await.is_some());
}
