//! Fault injection for Interrex: what must stay true while things break.
//!
//! The place of the simulator, the live faults, the history and its checkers. They will judge every tier by the
//! same oracle: what each client was promised (acknowledged, rejected, or unknown, where a timeout is never
//! "absent"), in two phases: safety while faults are injected, convergence after they have stopped.
//!
//! Nothing imports this crate; it may import everything.
