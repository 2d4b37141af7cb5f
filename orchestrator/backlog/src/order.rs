//! Which item comes next, and why. Pure functions over the items of one version.

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

use crate::item::{BacklogItem, BacklogSnapshot, ItemStatus};

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
    /// Somebody set its status to `blocked`.
    Blocked,
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
            PlacementReason::Blocked => f.write_str("blocked"),
            PlacementReason::Completed => f.write_str("completed"),
        }
    }
}

impl BacklogSnapshot {
    /// Returns what to do next. Takes time linear in items and dependencies.
    #[must_use]
    pub fn select_next(&self) -> NextItem {
        let statuses = index_statuses(&self.items);
        let first = self
            .items
            .iter()
            .filter(|item| is_selectable(item, &statuses))
            .min_by(|a, b| self.order.compare(a, b));
        if let Some(item) = first {
            return NextItem::Item { item: item.clone() };
        }
        if self.items.is_empty() {
            return NextItem::Empty;
        }
        let waiting: Vec<_> =
            self.explain().into_iter().filter(|p| p.reason != PlacementReason::Completed).collect();
        if waiting.is_empty() { NextItem::Complete } else { NextItem::Blocked { waiting } }
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
        let place = |item: &BacklogItem| ItemPlacement {
            id: item.id.clone(),
            reason: places.remove(item.id.as_str()).unwrap_or_else(|| match item.status {
                ItemStatus::Completed => PlacementReason::Completed,
                ItemStatus::Blocked => PlacementReason::Blocked,
                ItemStatus::Pending | ItemStatus::InProgress => {
                    PlacementReason::Waiting { dependencies: pending_of(item, &statuses) }
                }
            }),
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
