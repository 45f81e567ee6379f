//! Background tasks: probes, settling, memory, the model server's process, sleep of the machine.
//!
//! Each task sleeps until the scheduler wants something or its own source reports; while no
//! request is queued or in flight only the idle probe wakes. Not here: decisions, which are the
//! scheduler's alone.

pub(crate) mod memory;
pub mod pause;
mod power;
pub(crate) mod probe;
pub(crate) mod process;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::context::Context;
use crate::http::catch_panic::catch_panic;
use crate::scheduler::Effect;

/// Between a panic of a background task and its restart.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// Starts the background tasks. They end when the set is dropped.
pub(crate) fn spawn(
    context: &Arc<Context>,
    effects: mpsc::UnboundedReceiver<Effect>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(carry_out(Arc::clone(context), effects));
    restarting(&mut tasks, context, memory::watch);
    restarting(&mut tasks, context, process::watch_port);
    restarting(&mut tasks, context, process::watch_end);
    #[cfg(target_os = "linux")]
    restarting(&mut tasks, context, memory::watch_stalls);
    restarting(&mut tasks, context, power::watch_sleep);
    restarting(&mut tasks, context, power::keep_awake);
    let ticking = context.scheduler.clone();
    tasks.spawn(async move { ticking.run().await });
    tasks
}

/// Runs `task` until it returns, and again one second after a panic: without it the state that it
/// keeps would stay as it was seen last.
pub(crate) fn restarting<W, F>(tasks: &mut JoinSet<()>, context: &Arc<Context>, task: W)
where
    W: Fn(Arc<Context>) -> F + Send + 'static,
    F: Future<Output = ()> + Send,
{
    let context = Arc::clone(context);
    tasks.spawn(async move {
        while catch_panic(task(Arc::clone(&context))).await.is_none() {
            tracing::error!("background task panicked; restarting it");
            tokio::time::sleep(RESTART_AFTER).await;
        }
    });
}

/// Carries out the scheduler's effects.
async fn carry_out(context: Arc<Context>, mut effects: mpsc::UnboundedReceiver<Effect>) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            effect = effects.recv() => {
                let context = Arc::clone(&context);
                match effect {
                    None => return,
                    Some(Effect::Probe { limit }) => { tasks.spawn(probe::probe(context, limit)); }
                    Some(Effect::Settle { id }) => { tasks.spawn(probe::settle(context, id)); }
                    Some(Effect::KeepPause) => {
                        tasks.spawn(async move { pause::write(&context).await });
                    }
                }
            }
            Some(_) = tasks.join_next() => {}
        }
    }
}
