//! Answers the agent's requests for permission.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SelectedPermissionOutcome, ToolCallContent, ToolCallUpdateFields,
    ToolKind,
};
use ralph_adapter_common::WriteGuard;
use serde_json::Value;

use crate::config::{Answer, Kind, Permissions};

/// Arguments by which tools name the file that they write.
const PATHS: [&str; 5] = ["file_path", "notebook_path", "path", "filePath", "abs_path"];
/// Most refusals that are kept for the report.
const MAX_DENIED: usize = 100;

/// Decides about the calls of one session.
pub(crate) struct PermissionPolicy {
    permissions: Permissions,
    guard: WriteGuard,
    workspace: PathBuf,
    denied: Mutex<Vec<String>>,
}

impl PermissionPolicy {
    pub(crate) fn new(
        permissions: Permissions,
        guard: WriteGuard,
        workspace: PathBuf,
    ) -> Arc<Self> {
        Arc::new(Self { permissions, guard, workspace, denied: Mutex::default() })
    }

    /// Returns the answer to a request; once the session is cancelled, that it is.
    pub(crate) fn answer(
        &self,
        request: &RequestPermissionRequest,
        cancelled: bool,
    ) -> RequestPermissionResponse {
        let fields = &request.tool_call.fields;
        let answer = if self.names_guarded(fields) {
            Answer::Reject
        } else {
            self.permissions.of(kind(fields.kind))
        };
        let option = if cancelled { None } else { pick(&request.options, answer) };
        if answer == Answer::Reject && !cancelled {
            let call = fields.title.as_deref().or(fields.name.as_deref());
            self.record_denial(call.unwrap_or(&request.tool_call.tool_call_id.0));
        }
        RequestPermissionResponse::new(match option {
            Some(option) => RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(
                option.option_id.clone(),
            )),
            // Nothing that is offered is what is meant.
            None => RequestPermissionOutcome::Cancelled,
        })
    }

    fn record_denial(&self, call: &str) {
        let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        if denied.len() < MAX_DENIED {
            denied.push(format!("{call:.500}"));
        }
    }

    /// Returns the calls that were refused.
    pub(crate) fn denied(&self) -> Vec<String> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn names_guarded(&self, fields: &ToolCallUpdateFields) -> bool {
        match fields.kind {
            Some(ToolKind::Read | ToolKind::Search | ToolKind::Fetch | ToolKind::Think) => false,
            _ => named_paths(fields).any(|path| self.guard.is_guarded(&self.workspace.join(path))),
        }
    }
}

/// Returns the paths that a call names, in whichever way.
fn named_paths(fields: &ToolCallUpdateFields) -> impl Iterator<Item = &Path> {
    let locations = fields.locations.iter().flatten().map(|location| location.path.as_path());
    let diffs = fields.content.iter().flatten().filter_map(|content| match content {
        ToolCallContent::Diff(diff) => Some(diff.path.as_path()),
        _ => None,
    });
    let input = fields.raw_input.as_ref().and_then(Value::as_object);
    let arguments = PATHS.iter().filter_map(move |key| input?.get(*key)?.as_str().map(Path::new));
    // Codex names the files of a patch as keys.
    let changes = input.and_then(|input| input.get("changes")?.as_object());
    let changes = changes.into_iter().flat_map(|changes| changes.keys().map(Path::new));
    locations.chain(diffs).chain(arguments).chain(changes)
}

const fn kind(kind: Option<ToolKind>) -> Kind {
    match kind {
        Some(ToolKind::Read) => Kind::Read,
        Some(ToolKind::Edit) => Kind::Edit,
        Some(ToolKind::Delete) => Kind::Delete,
        Some(ToolKind::Move) => Kind::Move,
        Some(ToolKind::Search) => Kind::Search,
        Some(ToolKind::Execute) => Kind::Execute,
        Some(ToolKind::Think) => Kind::Think,
        Some(ToolKind::Fetch) => Kind::Fetch,
        Some(ToolKind::SwitchMode) => Kind::SwitchMode,
        _ => Kind::Other,
    }
}

/// By kind, since agents order and name their options as they like; the narrower one, since the next
/// call may name what is guarded.
fn pick(options: &[PermissionOption], answer: Answer) -> Option<&PermissionOption> {
    let kinds = match answer {
        Answer::Allow => [PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways],
        Answer::Reject => [PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectAlways],
    };
    kinds.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(permissions: &Value, call: Value, options: &[&str], cancelled: bool) -> Value {
        let permissions = serde_json::from_value(permissions.clone()).unwrap();
        let guard = WriteGuard::new(|path| path.starts_with("/ws/guarded"));
        let policy = PermissionPolicy::new(permissions, guard, "/ws".into());
        let mut call = call;
        call["toolCallId"] = json!("t");
        let options: Vec<_> = options
            .iter()
            .map(|kind| json!({"optionId": format!("id-{kind}"), "name": "x", "kind": kind}))
            .collect();
        let request = json!({"sessionId": "s", "toolCall": call, "options": options});
        let request = serde_json::from_value(request).unwrap();
        serde_json::to_value(policy.answer(&request, cancelled)).unwrap()["outcome"].clone()
    }

    const ALL: [&str; 4] = ["reject_always", "allow_always", "reject_once", "allow_once"];

    #[test]
    fn options_are_picked_by_their_kind() {
        let call = || json!({"kind": "execute", "title": "ls"});
        let chosen = |kind: &str| json!({"outcome": "selected", "optionId": format!("id-{kind}")});
        let cancelled = json!({"outcome": "cancelled"});
        assert_eq!(answer(&json!("allow"), call(), &ALL, false), chosen("allow_once"));
        assert_eq!(answer(&json!("reject"), call(), &ALL, false), chosen("reject_once"));
        assert_eq!(answer(&json!("allow"), call(), &ALL, true), cancelled);
        assert_eq!(answer(&json!("allow"), call(), &ALL[..3], false), chosen("allow_always"));
        assert_eq!(answer(&json!("allow"), call(), &ALL[2..3], false), cancelled);
        assert_eq!(answer(&json!("reject"), call(), &["allow_once"], false), cancelled);
        let by_kind = json!({"execute": "reject"});
        assert_eq!(answer(&by_kind, call(), &ALL, false), chosen("reject_once"));
        assert_eq!(answer(&by_kind, json!({"kind": "edit"}), &ALL, false), chosen("allow_once"));
    }

    #[test]
    fn what_is_guarded_is_not_changed() {
        let refused = json!({"outcome": "selected", "optionId": "id-reject_once"});
        for call in [
            json!({"kind": "edit", "locations": [{"path": "/ws/guarded/a"}]}),
            json!({"kind": "edit", "rawInput": {"file_path": "guarded/a"}}),
            json!({"kind": "delete", "locations": [{"path": "/ws/b"}, {"path": "/ws/guarded"}]}),
            json!({"kind": "edit", "rawInput": {"changes": {"/ws/guarded/a": {}}}}),
            json!({"content": [{"type": "diff", "path": "/ws/guarded/a", "newText": "x"}]}),
        ] {
            assert_eq!(answer(&json!("allow"), call.clone(), &ALL, false), refused, "{call}");
        }
        for call in [
            json!({"kind": "read", "locations": [{"path": "/ws/guarded/a"}]}),
            json!({"kind": "edit", "rawInput": {"file_path": "/ws/free", "content": "guarded/a"}}),
            json!({"kind": "edit", "rawInput": 7}),
        ] {
            assert_ne!(answer(&json!("allow"), call.clone(), &ALL, false), refused, "{call}");
        }
    }
}
