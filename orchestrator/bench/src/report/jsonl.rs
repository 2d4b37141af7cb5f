//! A job as JSON Lines: an object for each attempt at a trial, then one with the summary.

use std::io::{self, Write};

use serde::Serialize;

use crate::summary::JobSummary;
use crate::trial::TrialRecord;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'a> {
    Trial(&'a TrialRecord),
    Summary(&'a JobSummary),
}

/// Writes one JSON object per line: each record, with `"type": "trial"`, in the given order, and last the summary,
/// with `"type": "summary"`.
///
/// # Errors
/// Returns the error of `out`.
pub fn write_lines(
    out: &mut impl Write,
    summary: &JobSummary,
    records: &[TrialRecord],
) -> io::Result<()> {
    for record in records {
        write_line(out, &Line::Trial(record))?;
    }
    write_line(out, &Line::Summary(summary))?;
    out.flush()
}

fn write_line(out: &mut impl Write, line: &Line<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::report::samples::{hostile_name, sample_job};

    fn lines(summary: &JobSummary, records: &[TrialRecord]) -> Vec<Value> {
        let mut out = Vec::new();
        write_lines(&mut out, summary, records).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn ends_with_the_summary_and_loses_nothing() {
        let (summary, records) = sample_job();
        let lines = lines(&summary, &records);
        assert_eq!(lines.len(), records.len() + 1);
        for (line, record) in lines.iter().zip(&records) {
            assert_eq!(line["type"], "trial");
            assert_eq!(&serde_json::from_value::<TrialRecord>(line.clone()).unwrap(), record);
        }
        let last = lines.last().unwrap();
        assert_eq!(last["type"], "summary");
        assert_eq!(serde_json::from_value::<JobSummary>(last.clone()).unwrap(), summary);
    }

    #[test]
    fn keeps_hostile_names_in_one_line() {
        let (mut summary, mut records) = sample_job();
        records.truncate(1);
        records[0].key.task = hostile_name();
        summary.job = hostile_name();
        let lines = lines(&summary, &records);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["task"], hostile_name());
        assert_eq!(lines[1]["job"], hostile_name());
    }

    #[test]
    fn reports_the_error_of_a_full_disk() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (summary, records) = sample_job();
        let error = write_lines(&mut Full, &summary, &records).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
