//! The core seen from outside: commands in, transitions out.

#[cfg(test)]
mod agents;
mod applications;
#[cfg(test)]
mod at_most_once;
#[cfg(test)]
mod digest;
#[cfg(test)]
mod drain;
mod drivers;
#[cfg(test)]
mod dynamic_allocation;
#[cfg(test)]
mod events;
#[cfg(test)]
mod explain;
#[cfg(test)]
mod gates;
mod holds;
#[cfg(test)]
mod priorities;
#[cfg(test)]
mod profiles;
mod properties;
mod recovery;
mod repeats;
mod reports;
mod scale;
#[cfg(test)]
mod spark_suites;
#[cfg(test)]
mod specs;
#[cfg(test)]
mod starts;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod support;
mod vectors;
#[cfg(test)]
mod weaknesses;
mod workers;
