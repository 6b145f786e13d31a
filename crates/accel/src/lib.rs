//! dpb accel.
