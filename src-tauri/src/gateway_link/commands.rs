//! What a person asks of the gateway, by tray or panel; the same for an own one and a daemon's.

use std::future::Future;
use std::sync::Arc;

use http::Method;
use oneslot::context::Context as Gateway;
use oneslot::scheduler::pause::{Pause, Running};
use oneslot::state::read_running;
use oneslot::telemetry::message::{Fact, Message};
use serde::Serialize;
use serde_json::{Value, json};

use super::remote::{Coming, Remote, RemoteError};
use super::{Behind, Serving};

/// How a wish fails: the kind of failure, and a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Fault {
    /// What kind of failure it is.
    pub code: Reason,
    /// What happened.
    pub message: Message,
}

/// Why a wish failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Reason {
    /// No gateway runs.
    NotServing,
    /// What was meant is not there any more.
    NotFound,
    /// The gateway or the model server said no.
    Refused,
    /// It could not be done.
    Failed,
}

impl Fault {
    /// It could not be done.
    pub fn failed(error: &dyn std::error::Error) -> Self {
        Self::because(Fact::Failed {
            error: chain(error),
        })
    }

    /// It could not be done, for this reason.
    pub fn because(fact: Fact) -> Self {
        Self {
            code: Reason::Failed,
            message: fact.message(),
        }
    }

    fn not_serving() -> Self {
        Self {
            code: Reason::NotServing,
            message: Fact::NotServing.message(),
        }
    }
}

/// An error and everything that led to it, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

impl From<RemoteError> for Fault {
    fn from(error: RemoteError) -> Self {
        let code = match &error {
            RemoteError::Refused { status, .. } if status.as_u16() == 404 => Reason::NotFound,
            RemoteError::Refused { .. } => Reason::Refused,
            RemoteError::Connect(_)
            | RemoteError::Build(_)
            | RemoteError::Exchange(_)
            | RemoteError::Patience => Reason::Failed,
        };
        Self {
            code,
            ..Self::failed(&error)
        }
    }
}

impl Serving {
    /// Pauses; `until_ms` is in Unix milliseconds.
    ///
    /// # Errors
    /// No gateway runs, or it is not reached.
    pub async fn pause(&self, until_ms: Option<i64>, running: Running) -> Result<(), Fault> {
        match self.behind()? {
            Target::Own(gateway) => {
                // The pause is written down, which may take a disk its time.
                let pause = Pause { until_ms };
                self.on_thread(async move {
                    oneslot::monitor::pause::pause(&gateway, pause, running).await
                })
                .await
            }
            Target::Daemon(remote) => {
                let body = json!({ "until_ms": until_ms, "stop": running == Running::Stop });
                self.command(remote, Method::POST, "/oneslot/pause", Some(body))
                    .await
            }
        }
    }

    /// Resumes.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn resume(&self) -> Result<(), Fault> {
        match self.behind()? {
            Target::Own(gateway) => {
                self.on_thread(async move {
                    oneslot::monitor::pause::resume(&gateway).await;
                })
                .await
            }
            Target::Daemon(remote) => {
                self.command(remote, Method::POST, "/oneslot/resume", None)
                    .await
            }
        }
    }

    /// Ends a cooldown and probes; returns when the probe was answered.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn check(&self) -> Result<(), Fault> {
        match self.behind()? {
            Target::Own(gateway) => self.on_thread(async move { gateway.check().await }).await,
            Target::Daemon(remote) => {
                self.command(remote, Method::POST, "/oneslot/check", None)
                    .await
            }
        }
    }

    /// Unloads the model, at its turn in the line; gives the names of what was unloaded.
    ///
    /// # Errors
    /// As [`pause`](Self::pause), a refused turn, or a server that cannot.
    pub async fn unload(&self) -> Result<Vec<String>, Fault> {
        match self.behind()? {
            Target::Own(gateway) => {
                let id = gateway.next_id();
                let unloaded = self.on_thread(async move { gateway.unload(id).await });
                match unloaded.await? {
                    Ok(unloaded) => unloaded.map(|(models, _)| models).map_err(|error| Fault {
                        code: Reason::Refused,
                        ..Fault::failed(&error)
                    }),
                    Err(refusal) => Err(Fault {
                        code: Reason::Refused,
                        ..Fault::because(Fact::Failed {
                            error: refusal.message(),
                        })
                    }),
                }
            }
            Target::Daemon(remote) => {
                let sent = async move { remote.send(Method::POST, "/oneslot/unload", None).await };
                let answer = self.on_thread(sent).await??;
                let models = answer.get("unloaded").and_then(Value::as_array);
                let names = models.into_iter().flatten().filter_map(Value::as_str);
                Ok(names.map(str::to_owned).collect())
            }
        }
    }

    /// Unloads the model now, whatever runs: for a pause that frees its memory.
    ///
    /// # Errors
    /// As [`unload`](Self::unload).
    pub async fn unload_now(&self) -> Result<(), Fault> {
        match self.behind()? {
            Target::Own(gateway) => {
                let freed = self.on_thread(async move { gateway.free().await }).await?;
                freed.map(|_| ()).map_err(|error| Fault {
                    code: Reason::Refused,
                    ..Fault::failed(&error)
                })
            }
            Target::Daemon(_) => self.unload().await.map(|_| ()),
        }
    }

    /// Stops the answers that run; those in line keep their places.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn stop_answers(&self) -> Result<(), Fault> {
        match self.behind()? {
            Target::Own(gateway) => {
                gateway.stop();
                Ok(())
            }
            Target::Daemon(_) => {
                let snapshot = Arc::clone(&self.shared.shown.borrow().snapshot);
                let running = snapshot.queue.items.iter().filter(|one| one.position == 0);
                for item in running {
                    match self.cancel(&item.id).await {
                        // It ended by itself meanwhile.
                        Ok(())
                        | Err(Fault {
                            code: Reason::NotFound,
                            ..
                        }) => {}
                        Err(fault) => return Err(fault),
                    }
                }
                Ok(())
            }
        }
    }

    /// Cancels one request, waiting or running.
    ///
    /// # Errors
    /// As [`pause`](Self::pause), or it is not there any more.
    pub async fn cancel(&self, id: &str) -> Result<(), Fault> {
        let plain = id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        let missing = || Fault {
            code: Reason::NotFound,
            message: Fact::RequestGone.message(),
        };
        if id.is_empty() || !plain {
            return Err(missing());
        }
        match self.behind()? {
            Target::Own(gateway) => gateway.cancel(id).ok_or_else(missing),
            Target::Daemon(remote) => {
                let path = format!("/oneslot/requests/{id}");
                self.command(remote, Method::DELETE, &path, None).await
            }
        }
    }

    /// Sends a request to the gateway as any app would, with the run's token; gives the answer as
    /// soon as it begins.
    ///
    /// # Errors
    /// No gateway runs, or it is not reached.
    pub(crate) async fn as_app(&self, path: &str, body: Value) -> Result<Coming, Fault> {
        let found = read_running(self.state()).map_err(|error| Fault::failed(&error))?;
        let remote = Remote::new(found.ok_or_else(Fault::not_serving)?);
        let path = path.to_owned();
        let asked = async move { remote.ask(Method::POST, &path, Some(&body)).await };
        Ok(self.on_thread(asked).await??)
    }

    /// Runs `work` on the gateway's runtime, where its connections live.
    ///
    /// # Errors
    /// The gateway's thread is gone.
    pub(crate) async fn on_thread<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Fault> {
        let task = self.runtime.spawn(work);
        task.await.map_err(|error| Fault::failed(&error))
    }

    async fn command(
        &self,
        remote: Arc<Remote>,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<(), Fault> {
        let path = path.to_owned();
        let sent = async move { remote.send(method, &path, body.as_ref()).await };
        self.on_thread(sent).await??;
        Ok(())
    }

    fn behind(&self) -> Result<Target, Fault> {
        match self.shared.behind() {
            Behind::Own(gateway) => Ok(Target::Own(Arc::clone(&gateway.0))),
            Behind::Daemon(remote) => Ok(Target::Daemon(remote)),
            Behind::Nobody => Err(Fault::not_serving()),
        }
    }
}

/// Who is asked.
enum Target {
    Own(Arc<Gateway>),
    Daemon(Arc<Remote>),
}
