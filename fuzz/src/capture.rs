//! The capture: the true beginning and end of a stream, however it came, and the count of the rest.

use ralph_orchestrator_supervisor::{Capture, CaptureLimit};

use crate::bytes::Bytes;

/// The first two bytes are the limits; the rest are pieces of the stream.
pub fn check(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let limit = CaptureLimit { head: bytes.byte().into(), tail: bytes.byte().into() };
    let mut capture = Capture::new(limit);
    let mut stream = Vec::new();
    while !bytes.is_empty() {
        let piece = bytes.piece();
        stream.extend_from_slice(piece);
        capture.push(piece);
    }
    let captured = capture.finish();
    let kept = captured.head.len() + captured.tail.len();
    assert_eq!(kept, stream.len().min(limit.head + limit.tail));
    assert_eq!(captured.cut, u64::try_from(stream.len() - kept).unwrap());
    assert!(captured.head.len() <= limit.head && captured.tail.len() <= limit.tail);
    assert!(stream.starts_with(&captured.head) && stream.ends_with(&captured.tail));
    assert_eq!(captured.is_empty(), stream.is_empty());
    if captured.cut == 0 {
        assert_eq!(captured.text(), String::from_utf8_lossy(&stream));
    }
}
