//! Which item comes next, and why. Pure functions over the items of one version.

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

use crate::item::{BacklogItem, BacklogSnapshot, ItemStatus, SetAside};

pub use ralph_orchestrator_contract::ItemOrder;

/// What a driver does next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "next")]
pub enum NextItem {
    /// Work on this item.
    Item {
        /// The item.
        item: BacklogItem,
    },
    /// Every item is completed.
    Complete,
    /// No item can be worked on, and some are not completed.
    Blocked {
        /// Each item that is not completed, with what it waits for, in file order.
        waiting: Vec<ItemPlacement>,
    },
    /// The backlog has no items.
    Empty,
}

/// One item's place in the order, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ItemPlacement {
    /// The item.
    pub id: String,
    /// Why it is there.
    pub reason: PlacementReason,
}

/// Why an item has its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum PlacementReason {
    /// It is the first selectable item.
    Selected,
    /// It is selectable, and others come first.
    Queued {
        /// Its place among the selectable items, from 1; the selected item has 1.
        rank: usize,
        /// The item directly before it.
        after: String,
    },
    /// It waits for items that are not completed.
    Waiting {
        /// Those items, in the order in which the item names them.
        dependencies: Vec<PendingDependency>,
    },
    /// It is blocked.
    Blocked {
        /// Why; `None` if somebody set its status to `blocked`.
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// A person wants it left out.
    Skipped,
    /// It depends on an item that is skipped.
    LeftOut {
        /// That item.
        skipped: String,
    },
    /// It is completed.
    Completed,
}

/// A dependency that is not completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PendingDependency {
    /// The item that has to be completed.
    pub id: String,
    /// Its status; `None` if there is no such item.
    pub status: Option<ItemStatus>,
}

impl fmt::Display for ItemPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.id)?;
        match &self.reason {
            PlacementReason::Selected => f.write_str("selected"),
            PlacementReason::Queued { rank, after } => write!(f, "number {rank}, after {after}"),
            PlacementReason::Waiting { dependencies } => {
                f.write_str("waits for ")?;
                for (n, dependency) in dependencies.iter().enumerate() {
                    let comma = if n == 0 { "" } else { ", " };
                    match dependency.status {
                        Some(status) => write!(f, "{comma}{} ({status})", dependency.id)?,
                        None => write!(f, "{comma}{} (missing)", dependency.id)?,
                    }
                }
                Ok(())
            }
            PlacementReason::Blocked { why: None } => f.write_str("blocked"),
            PlacementReason::Blocked { why: Some(why) } => write!(f, "blocked: {why}"),
            PlacementReason::Skipped => f.write_str("skipped"),
            PlacementReason::LeftOut { skipped } => {
                write!(f, "left out, since it depends on {skipped}, which is skipped")
            }
            PlacementReason::Completed => f.write_str("completed"),
        }
    }
}

impl PlacementReason {
    /// Returns whether the backlog is not complete because of this item, and it cannot be worked on.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting { .. } | Self::Blocked { .. })
    }
}

impl BacklogSnapshot {
    /// Returns what to do next. Takes time linear in items and dependencies.
    #[must_use]
    pub fn select_next(&self) -> NextItem {
        let first = self.selectable().min_by(|a, b| self.order.compare(a, b));
        if let Some(item) = first {
            return NextItem::Item { item: item.clone() };
        }
        if self.items.is_empty() {
            return NextItem::Empty;
        }
        let waiting: Vec<_> =
            self.explain().into_iter().filter(|placement| placement.reason.is_waiting()).collect();
        if waiting.is_empty() { NextItem::Complete } else { NextItem::Blocked { waiting } }
    }

    /// Returns the items that can be worked on, in file order.
    pub fn selectable(&self) -> impl Iterator<Item = &BacklogItem> {
        let statuses = index_statuses(&self.items);
        self.items.iter().filter(move |item| is_selectable(item, &statuses))
    }

    /// Returns the items that are blocked, in file order.
    #[must_use]
    pub fn blocked(&self) -> Vec<ItemPlacement> {
        let is_blocked =
            |placement: &ItemPlacement| matches!(placement.reason, PlacementReason::Blocked { .. });
        self.explain().into_iter().filter(is_blocked).collect()
    }

    /// Returns the items that a person skipped, and those that depend on them, in file order.
    #[must_use]
    pub fn left_out(&self) -> Vec<ItemPlacement> {
        let is_out = |placement: &ItemPlacement| {
            matches!(placement.reason, PlacementReason::Skipped | PlacementReason::LeftOut { .. })
        };
        self.explain().into_iter().filter(is_out).collect()
    }

    /// Returns which skipped item each item depends on that depends on one, directly or by others.
    fn index_left_out(&self) -> HashMap<&str, &str> {
        let mut dependents: HashMap<&str, Vec<&BacklogItem>> = HashMap::new();
        for item in &self.items {
            for id in &item.dependencies {
                dependents.entry(id).or_default().push(item);
            }
        }
        let skipped = self.set_aside.iter().filter(|(_, aside)| **aside == SetAside::Skipped);
        let mut next: Vec<(&str, &str)> =
            skipped.map(|(id, _)| (id.as_str(), id.as_str())).collect();
        let mut left_out = HashMap::new();
        while let Some((id, skipped)) = next.pop() {
            for item in dependents.get(id).into_iter().flatten() {
                let is_open = item.status != ItemStatus::Completed;
                if is_open && left_out.insert(item.id.as_str(), skipped).is_none() {
                    next.push((&item.id, skipped));
                }
            }
        }
        left_out
    }

    /// Returns the reason of an item that cannot be worked on.
    fn explain_unselectable(
        &self,
        item: &BacklogItem,
        left_out: &HashMap<&str, &str>,
        statuses: &Statuses<'_>,
    ) -> PlacementReason {
        match (item.status, self.set_aside.get(&item.id), left_out.get(item.id.as_str())) {
            (ItemStatus::Completed, _, _) => PlacementReason::Completed,
            (_, Some(SetAside::Skipped), _) => PlacementReason::Skipped,
            (_, _, Some(skipped)) => PlacementReason::LeftOut { skipped: (*skipped).to_owned() },
            (_, Some(SetAside::Blocked(why)), None) => {
                PlacementReason::Blocked { why: Some(why.clone()) }
            }
            (ItemStatus::Blocked, None, None) => PlacementReason::Blocked { why: None },
            (ItemStatus::Pending | ItemStatus::InProgress, None, None) => {
                PlacementReason::Waiting { dependencies: pending_of(item, statuses) }
            }
        }
    }

    /// Returns every item's place in the order and why it has it, in file order.
    #[must_use]
    pub fn explain(&self) -> Vec<ItemPlacement> {
        let statuses = index_statuses(&self.items);
        let mut ranked: Vec<&BacklogItem> =
            self.items.iter().filter(|item| is_selectable(item, &statuses)).collect();
        ranked.sort_by(|a, b| self.order.compare(a, b));
        let mut places: HashMap<&str, PlacementReason> = HashMap::new();
        let mut before: Option<&str> = None;
        for (index, item) in ranked.into_iter().enumerate() {
            let reason = before.map_or(PlacementReason::Selected, |after| {
                PlacementReason::Queued { rank: index + 1, after: after.to_owned() }
            });
            places.insert(&item.id, reason);
            before = Some(&item.id);
        }
        let left_out = self.index_left_out();
        let place = |item: &BacklogItem| ItemPlacement {
            id: item.id.clone(),
            reason: places
                .remove(item.id.as_str())
                .unwrap_or_else(|| self.explain_unselectable(item, &left_out, &statuses)),
        };
        self.items.iter().map(place).collect()
    }
}

type Statuses<'a> = HashMap<&'a str, ItemStatus>;

fn index_statuses(items: &[BacklogItem]) -> Statuses<'_> {
    items.iter().map(|item| (item.id.as_str(), item.status)).collect()
}

fn is_selectable(item: &BacklogItem, statuses: &Statuses<'_>) -> bool {
    matches!(item.status, ItemStatus::Pending | ItemStatus::InProgress)
        && item
            .dependencies
            .iter()
            .all(|id| statuses.get(id.as_str()) == Some(&ItemStatus::Completed))
}

fn pending_of(item: &BacklogItem, statuses: &Statuses<'_>) -> Vec<PendingDependency> {
    let of = |id: &String| PendingDependency {
        id: id.clone(),
        status: statuses.get(id.as_str()).copied(),
    };
    let pending = item.dependencies.iter().map(of);
    pending.filter(|dependency| dependency.status != Some(ItemStatus::Completed)).collect()
}
