//! The six faults, and the order and the variants that a seed chooses.

use fastrand::Rng;

/// The number of cases, which is also the number of faults.
pub const CASES: usize = 6;

/// A fault of one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The account of the operator may not patch Deployments.
    MissingRight,
    /// The CRD of the reconciled type is not installed.
    MissingCrd,
    /// A webhook denies each Deployment.
    RefusingWebhook,
    /// Another client changes the objects of the operator.
    ConflictStorm(ConflictSource),
    /// The reconcile of one object never completes.
    HungReconcile(Hang),
    /// The operator loses its lease.
    LostLease(LeaseLoss),
}

/// The other client of [`Fault::ConflictStorm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictSource {
    /// A client changes the reconciled object all the time, so the updates of its status conflict.
    Spec,
    /// A field manager sets a field that the operator applies. The operator does not take it over.
    FieldManager,
    /// A field manager and the operator take over a field from each other, so no request fails.
    Fight,
}

/// The way in which a reconcile hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hang {
    /// The reconcile waits for a future that never completes.
    Future,
    /// The reconcile blocks its thread.
    Thread,
}

/// The way in which the operator loses its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseLoss {
    /// A process outside of the operator acquires the Lease.
    OtherHolder,
    /// The server does not accept writes of the Lease.
    FailedRenewals,
}

impl Fault {
    /// Describes the cause, for the file of the solutions.
    #[must_use]
    pub fn answer(self) -> &'static str {
        match self {
            Self::MissingRight => "missing right: the account of the operator may not patch Deployments",
            Self::MissingCrd => "missing CRD: the CRD of Websites is not installed",
            Self::RefusingWebhook => "webhook: a webhook denies each Deployment",
            Self::ConflictStorm(ConflictSource::Spec) => {
                "conflict storm: a client changes spec.replicas of the Website home all the time"
            }
            Self::ConflictStorm(ConflictSource::FieldManager) => {
                "conflict storm: a field manager sets spec.replicas of the Deployment home"
            }
            Self::ConflictStorm(ConflictSource::Fight) => {
                "conflict storm: a field manager and the operator take over spec.replicas of the Deployment home \
                 from each other"
            }
            Self::HungReconcile(Hang::Future) => {
                "hung reconcile: the name service does not respond for the Website home"
            }
            Self::HungReconcile(Hang::Thread) => {
                "hung reconcile: the call of the name service blocks its thread for the Website home"
            }
            Self::LostLease(LeaseLoss::OtherHolder) => "lost lease: another process took the Lease",
            Self::LostLease(LeaseLoss::FailedRenewals) => "lost lease: the server accepts no renewals",
        }
    }
}

/// Returns the fault of each case, which depends only on the seed.
#[must_use]
pub fn plan(seed: u64) -> [Fault; CASES] {
    let mut random = Rng::with_seed(seed);
    let conflicts = [ConflictSource::Spec, ConflictSource::FieldManager, ConflictSource::Fight];
    let conflict = conflicts[random.usize(..conflicts.len())];
    let hang = if random.bool() { Hang::Future } else { Hang::Thread };
    let loss = if random.bool() { LeaseLoss::OtherHolder } else { LeaseLoss::FailedRenewals };
    let mut faults = [
        Fault::MissingRight,
        Fault::MissingCrd,
        Fault::RefusingWebhook,
        Fault::ConflictStorm(conflict),
        Fault::HungReconcile(hang),
        Fault::LostLease(loss),
    ];
    random.shuffle(&mut faults);
    faults
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_plan_contains_all_six_faults() {
        for seed in 0..100 {
            let kinds: HashSet<_> = plan(seed).iter().map(std::mem::discriminant).collect();
            assert_eq!(kinds.len(), CASES, "seed {seed}");
            assert_eq!(plan(seed), plan(seed));
        }
    }

    #[test]
    fn seeds_choose_all_orders_and_variants() {
        let variants: HashSet<_> = (0..100).flat_map(plan).map(Fault::answer).collect();
        assert_eq!(variants.len(), 10);
        for case in 0..CASES {
            let faults: HashSet<_> = (0..100).map(|seed| std::mem::discriminant(&plan(seed)[case])).collect();
            assert_eq!(faults.len(), CASES, "case {}", case + 1);
        }
    }
}
