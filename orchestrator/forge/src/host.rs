//! The code hosts and their names.

/// A code host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CodeHost {
    /// GitHub, by `gh`.
    GitHub,
    /// GitLab, by `glab`.
    GitLab,
}

impl CodeHost {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::GitHub, Self::GitLab];

    /// Returns its name, as `[backlog] kind` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GitHub => "github",
            Self::GitLab => "gitlab",
        }
    }

    /// Returns its name in sentences.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::GitHub => "GitHub",
            Self::GitLab => "GitLab",
        }
    }

    /// Returns its program.
    #[must_use]
    pub const fn program(self) -> &'static str {
        match self {
            Self::GitHub => "gh",
            Self::GitLab => "glab",
        }
    }

    /// Returns where its program is to be had.
    pub(crate) const fn program_page(self) -> &'static str {
        match self {
            Self::GitHub => "https://cli.github.com",
            Self::GitLab => "https://gitlab.com/gitlab-org/cli",
        }
    }

    /// Returns the host of this name, or `None`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.name() == name)
    }
}
