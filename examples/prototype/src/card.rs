//! A card that computes Adler-32. Threads of this process stand in for its engines, and its numbers say so.

use std::num::NonZeroU32;

use dpb_core::lift::{OneKernel, threads_max};
use dpb_core::{Backend, Family, Limits, Listed, OpSpec, OpenError, Properties};

use crate::Adler32;
use crate::adler32::Checksum;

/// The family `card`: `card/2` is a card of two engines, `card` one of one.
#[derive(Clone, Copy, Debug)]
pub struct Cards;

/// Items that a job of the card has at most.
const ITEMS_MAX: usize = 1024;

impl Family for Cards {
    fn name(&self) -> &'static str {
        "card"
    }

    fn backends(&self) -> Vec<Listed> {
        vec![Listed {
            instance: "N".to_owned(),
            is_here: true,
            summary: "adler32".to_owned(),
            details: "N engines, whose place threads take".to_owned(),
        }]
    }

    fn open(&self, instance: &str) -> Result<Box<dyn Backend>, OpenError> {
        let engines = match instance {
            "" => Ok(NonZeroU32::MIN),
            number => number.parse(),
        };
        let most = threads_max();
        let engines = engines.ok().filter(|engines| *engines <= most);
        let engines = engines.ok_or_else(|| {
            OpenError::NoSuch(format!(
                "card/{instance}: not a number of engines from 1 to {most}"
            ))
        })?;
        let stand_in = format!("{engines} threads of the host");
        let mut limits = Limits::new(const { NonZeroU32::new(64).unwrap() });
        limits.items_max = ITEMS_MAX;
        let card = OneKernel::new(format!("card/{engines}"), |adler32: &Adler32| {
            Ok(Checksum::best(*adler32))
        })
        .on_workers(engines)
        .with_properties(Properties::of_device(Some(stand_in)))
        .with_limits(limits);
        Ok(Box::new(card))
    }

    fn all_for(&self, spec: &OpSpec) -> Vec<String> {
        spec.is::<Adler32>()
            .then(|| "1".to_owned())
            .into_iter()
            .collect()
    }
}
