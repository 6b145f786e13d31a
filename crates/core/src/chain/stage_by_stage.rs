//! Chains on a backend that does not know them.

use std::fmt;
use std::sync::Arc;

use super::Chain;
use crate::{
    Backend, Buf, Clock, Limits, OpSpec, Operator, Properties, SetupError, Unsupported, spec,
};

/// A backend that runs chains whatever the one inside knows of them: it hands over whole what that one takes whole, and runs the others
/// stage by stage, by [`Chain::on`], in the memory of the backend inside. For all other operators it is the backend inside.
///
/// [`Families::open`](crate::Families::open) gives every backend so; who opens one by other ways wraps it by hand.
pub struct StageByStage {
    inner: Arc<dyn Backend>,
}

impl StageByStage {
    /// `inner`, and chains of its operators.
    pub fn new(inner: impl Into<Arc<dyn Backend>>) -> Self {
        let inner = inner.into();
        Self { inner }
    }

    /// The stages of `spec`, if it is a chain that the backend inside does not take whole.
    fn stages<'a>(&self, spec: &'a OpSpec) -> Option<&'a [OpSpec]> {
        let spec::Chain(stages) = spec.get()?;
        self.inner.limits(spec).is_err().then_some(stages)
    }
}

impl Backend for StageByStage {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn clock(&self) -> &dyn Clock {
        self.inner.clock()
    }

    fn properties(&self) -> Properties {
        self.inner.properties()
    }

    fn code(&self, spec: &OpSpec) -> Option<String> {
        match self.stages(spec) {
            Some(stages) => Chain::code_on(&*self.inner, stages),
            None => self.inner.code(spec),
        }
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        self.inner.alloc(len)
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        match self.stages(spec) {
            Some(stages) => Chain::limits_on(&*self.inner, stages),
            None => self.inner.limits(spec),
        }
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        let Some(stages) = self.stages(spec) else {
            return self.inner.prepare(spec);
        };
        let inner = self.inner.clone();
        let chain = Chain::on(&*self.inner, stages, move |len| inner.alloc(len))?;
        Ok(Arc::new(chain))
    }
}

impl fmt::Debug for StageByStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StageByStage({})", self.name())
    }
}
