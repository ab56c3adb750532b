//! Passes the trace events of the shard's thread to the run's tracer, with the experiment's names.

use std::collections::BTreeMap;

use hoistway_experiment::Experiment;
use hoistway_queue::TraceMessage;
use hoistway_workload::trace::{Names, Tracer};

use crate::error::EngineError;
use crate::shard::{LocalClientId, Traced};
use crate::volume::{GroupHandle, ShardHandle};

/// Names for the objects in the shard: jobs by the contexts of their connections, groups by their ids.
pub(super) fn names(
    shard: &ShardHandle,
    experiment: &Experiment,
    client: LocalClientId,
    groups: &BTreeMap<String, GroupHandle>,
) -> Result<Names, EngineError> {
    let contexts = shard.contexts_of(client)?;
    let mut processes = Vec::new();
    for (place, context) in experiment.issuers().zip(contexts) {
        put(&mut processes, context.0, &place.job.name);
    }
    let mut paths = vec!["/".to_owned()];
    for (path, handle) in groups {
        put(&mut paths, handle.0, &format!("/{path}"));
    }
    Ok(Names::new(&experiment.scheduler.name, processes, paths))
}

fn put(names: &mut Vec<String>, index: u32, name: &str) {
    let index = index as usize;
    names.resize(names.len().max(index + 1), String::new());
    name.clone_into(&mut names[index]);
}

/// Passes events on in their order.
pub(super) fn pass_on(traced: &[Traced], names: &Names, tracer: &mut dyn Tracer) {
    for item in traced {
        match item {
            Traced::Message(TraceMessage { limiter, message: it }) => {
                tracer.message(it.at_ns, &hoistway_experiment::trace::line(names, *limiter, it));
            }
            Traced::Event(event) => {
                let when = (event.at_ns, 0);
                hoistway_experiment::trace::emit_event(
                    tracer,
                    event.kind.letter(),
                    when,
                    &event.attributes,
                    event.status,
                );
            }
        }
    }
}
