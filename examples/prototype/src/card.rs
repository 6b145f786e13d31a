//! A card that computes Adler-32. Threads of this process stand in for its engines, and its numbers say so.

use std::num::NonZeroU32;
use std::sync::Arc;

use dpb_core::lift::threads_max;
use dpb_core::{
    Backend, Buf, Clock, Family, Limits, Listed, OpSpec, OpenError, Operator, Pool, Pooled,
    Properties, SetupError, Unsupported, WallClock,
};

use crate::Adler32;

/// The family `card`: `card/2` is a card of two engines, `card` one of one.
#[derive(Clone, Copy, Debug)]
pub struct Cards;

/// Items that a job of the card has at most.
const ITEMS_MAX: usize = 1024;

struct Card {
    name: String,
    engines: NonZeroU32,
    clock: WallClock,
}

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
        Ok(Box::new(Card {
            name: format!("card/{engines}"),
            engines,
            clock: WallClock::default(),
        }))
    }

    fn all_for(&self, spec: &OpSpec) -> Vec<String> {
        spec.is::<Adler32>()
            .then(|| "1".to_owned())
            .into_iter()
            .collect()
    }
}

impl Backend for Card {
    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn properties(&self) -> Properties {
        Properties::of_device(Some(format!("{} threads of the host", self.engines)))
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        if !spec.is::<Adler32>() {
            let reason = format!("the card computes adler32, not {spec}");
            return Err(Unsupported { reason });
        }
        let mut limits = Limits::new(const { NonZeroU32::new(64).unwrap() });
        limits.items_max = ITEMS_MAX;
        Ok(limits)
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        let limits = self.limits(spec).map_err(SetupError::Unsupported)?;
        let adler32 = *spec.get::<Adler32>().expect("its limits say so");
        let engines = Pool::new(self.engines)?;
        Ok(Arc::new(Pooled::new(
            adler32,
            spec.clone(),
            limits,
            engines,
        )))
    }
}
