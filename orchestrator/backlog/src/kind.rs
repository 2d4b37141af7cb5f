//! The built-in formats and their names.

/// A built-in format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(test, derive(serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum BacklogKind {
    /// feature-list.json, prd.json or feature_list.json; the content says which.
    Json,
    /// Checkboxes in Markdown.
    PlanMd,
    /// features.db.
    #[cfg(feature = "sqlite")]
    Sqlite,
}

impl BacklogKind {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Json,
        Self::PlanMd,
        #[cfg(feature = "sqlite")]
        Self::Sqlite,
    ];

    /// Returns its name, as the configuration and messages have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::PlanMd => "plan-md",
            #[cfg(feature = "sqlite")]
            Self::Sqlite => "sqlite",
        }
    }

    /// Whether the file alone is the whole list, so that it can be committed and restored by itself. The last changes
    /// of a database may be in a file beside it.
    #[must_use]
    pub const fn is_one_file(self) -> bool {
        match self {
            Self::Json | Self::PlanMd => true,
            #[cfg(feature = "sqlite")]
            Self::Sqlite => false,
        }
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_in_the_list_and_has_the_name_of_its_variant() {
        let unknown = serde_json::from_str::<BacklogKind>("\"?\"").unwrap_err().to_string();
        let known: Vec<&str> = unknown.split('`').skip(3).step_by(2).collect();
        let all: Vec<&str> = BacklogKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(all, known);
    }

    #[test]
    fn the_pages_and_the_key_name_every_format() {
        let page = include_str!("../../../docs/user/backlogs.md");
        let key = include_str!("../../config/src/backlog_table.rs");
        for name in BacklogKind::ALL.iter().map(|kind| kind.name()) {
            assert!(page.contains(&format!("| `{name}` |")), "no row of backlogs.md: {name}");
            assert!(key.contains(&format!("\"{name}\" (")), "not in backlog_table.rs: {name}");
        }
    }
}
