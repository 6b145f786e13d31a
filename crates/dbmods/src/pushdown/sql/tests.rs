//! What is understood, what is refused and where the caret stands.
