//! The records of a run, as `log` prints them.

use std::collections::VecDeque;

use ralph_orchestrator_store::{JournalEntry, RunReader};
use ralph_orchestrator_story::located_run::LocatedRun;
use ralph_orchestrator_story::records::RecordFormatter;
use ralph_orchestrator_web::{RecordEvent, RecordStream, SourceError, StartAt};
use serde_json::{Value, json};

pub(super) struct Records {
    reader: RunReader,
    formatter: RecordFormatter,
    /// The last record that is not wanted.
    after: u64,
    /// How many of the records that are there are wanted; `None` once they were given.
    last: Option<usize>,
}

impl Records {
    pub(super) fn new(located: &LocatedRun, start: StartAt) -> Self {
        let (after, last) = match start {
            StartAt::After(seq) => (seq, None),
            StartAt::Last(last) => (0, Some(last)),
        };
        let reader = RunReader::of_run(&located.state_dir.layout, &located.run);
        Self { reader, formatter: RecordFormatter::new(None), after, last }
    }
}

impl RecordStream for Records {
    fn read(&mut self, each: &mut dyn FnMut(RecordEvent)) -> Result<(), SourceError> {
        let Self { reader, formatter, after, last } = self;
        let most = last.take();
        let mut newest: VecDeque<JournalEntry> = VecDeque::new();
        // The formatter has to see all: what it says of a record depends on those before.
        let read = reader.read(|entry| match most {
            None if entry.seq > *after => each(event(entry, formatter.lines(entry))),
            None => formatter.skip(&entry.record),
            Some(most) => {
                newest.push_back(entry.clone());
                if newest.len() > most {
                    newest.drain(..1).for_each(|entry| formatter.skip(&entry.record));
                }
            }
        });
        newest.iter().for_each(|entry| each(event(entry, formatter.lines(entry))));
        read.map(drop).map_err(|error| SourceError::Failed(error.to_string()))
    }
}

fn event(entry: &JournalEntry, lines: Vec<String>) -> RecordEvent {
    RecordEvent { seq: entry.seq, record: object(entry), lines }
}

/// Returns a record with its number and time, by the names that the journal has for them.
pub(super) fn object(entry: &JournalEntry) -> Value {
    let mut object = json!({ "seq": entry.seq, "time": entry.time });
    if let (Some(object), Ok(Value::Object(record))) =
        (object.as_object_mut(), serde_json::to_value(&entry.record))
    {
        object.extend(record);
    }
    object
}
