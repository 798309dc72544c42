//! Whom a fault meets, as written: `controller`, `leader of events/3`, `broker 2`, `application shop`.

use super::data::Target;
use super::problem::nearest;
use model::base::{BrokerId, TopicId, TopicPartition};

/// What names in a target can mean.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Nodes, numbered from 1.
    pub brokers: u16,
    /// Topics with their partitions, in order.
    pub topics: &'a [(String, u16)],
    /// Applications with their instances, in order.
    pub applications: &'a [(String, u16)],
    /// Readers with their instances, in order.
    pub readers: &'a [(String, u16)],
    /// Groups, in order.
    pub groups: &'a [String],
    /// Gatekeepers with their instances, in order.
    pub gatekeepers: &'a [(String, u16)],
    /// Processes of the registry.
    pub registries: u16,
    /// Keyed tables, in order.
    pub tables: &'a [String],
    /// Iceberg tables, in order.
    pub lakes: &'a [String],
    /// ClickHouse servers, in order.
    pub clickhouse: &'a [String],
    /// Jobs, in order.
    pub jobs: &'a [String],
    /// TaskManagers; none without jobs.
    pub task_managers: u16,
    /// Declared machines, in order.
    pub machines: &'a [String],
    /// Sinks of jobs that write topics.
    pub sinks: &'a [SinkName],
}
/// A sink of a job.
#[derive(Clone, Debug)]
pub struct SinkName {
    /// Its name.
    pub name: String,
    /// At most so many subtasks.
    pub subtasks: u16,
    /// The job, by place.
    pub job: u16,
    /// Its topic.
    pub topic: String,
}

/// Forms a target may take, for error texts.
const FORMS: &[&str] = &[
    "controller",
    "leader of TOPIC/N",
    "follower of TOPIC/N",
    "replicas of TOPIC/N",
    "broker N",
    "any broker",
    "all brokers",
    "other brokers",
    "broker that leads none of TOPIC",
    "coordinator of NAME",
    "coordinator of group NAME",
    "coordinator of sink NAME/0",
    "coordinator of NAME/N",
    "application NAME",
    "application NAME/N",
    "reader NAME",
    "reader NAME/N",
    "gatekeeper NAME",
    "gatekeeper NAME/N",
    "registry",
    "registry/N",
    "table NAME",
    "clickhouse NAME",
    "lake NAME",
    "job manager",
    "task manager N",
    "task manager of JOB",
    "all task managers",
    "all clients",
    "machine NAME",
];

impl Names<'_> {
    /// Reads a target.
    ///
    /// # Errors
    /// What is wrong, and advice.
    pub fn target(&self, text: &str) -> Result<Target, (String, Option<String>)> {
        let words: Vec<_> = text.split_whitespace().collect();
        match words[..] {
            ["controller"] => Ok(Target::Controller),
            ["leader", "of", p] => Ok(Target::LeaderOf(self.partition(p)?)),
            ["follower", "of", p] => Ok(Target::FollowerOf(self.partition(p)?)),
            ["replicas", "of", p] => Ok(Target::ReplicasOf(self.partition(p)?)),
            ["any", "broker"] => Ok(Target::AnyBroker),
            ["all", "brokers"] => Ok(Target::AllBrokers),
            ["other", "brokers"] => Ok(Target::OtherBrokers),
            ["all", "clients"] => Ok(Target::AllClients),
            ["job", "manager"] if self.task_managers > 0 => Ok(Target::JobManager),
            ["all", "task", "managers"] if self.task_managers > 0 => Ok(Target::TaskManager(None)),
            ["task", "manager", "of", name] => {
                Ok(Target::TaskManagerOf(place("job", name, self.jobs.iter().map(String::as_str))? as u16))
            }
            ["task", "manager", n] if self.task_managers > 0 => match n.parse::<u16>() {
                Ok(n) if n < self.task_managers => Ok(Target::TaskManager(Some(n))),
                _ => {
                    let help = format!("TaskManagers are 0 to {}", self.task_managers - 1);
                    Err((format!("there is no TaskManager {n}"), Some(help)))
                }
            },
            ["broker", n] => match n.parse::<u16>() {
                Ok(id) if (1..=self.brokers).contains(&id) => Ok(Target::Broker(BrokerId(i32::from(id)))),
                _ => Err((format!("there is no broker {n}"), Some(format!("brokers are 1 to {}", self.brokers)))),
            },
            ["coordinator", "of", name] => {
                let of: Vec<_> = self.applications.iter().chain(self.gatekeepers).cloned().collect();
                let (at, instance) = instance("application", name, &of)?;
                Ok(Target::CoordinatorOf(at, instance.unwrap_or(0)))
            }
            ["coordinator", "of", "group", name] => {
                let names = self.groups.iter().map(String::as_str);
                Ok(Target::CoordinatorOfGroup(place("group", name, names)? as u16))
            }
            ["coordinator", "of", "sink", name] => {
                let names: Vec<_> = self.sinks.iter().map(|s| (s.name.clone(), s.subtasks)).collect();
                let (at, subtask) = instance("sink", name, &names)?;
                let sink = &self.sinks[usize::from(at)];
                Ok(Target::CoordinatorOfSink(sink.job, self.topic(&sink.topic)?, subtask.unwrap_or(0)))
            }
            ["broker", "that", "leads", "none", "of", t] => Ok(Target::LeadsNoneOf(self.topic(t)?)),
            ["application", name] => {
                let (at, instance) = instance("application", name, self.applications)?;
                Ok(Target::Application(at, instance))
            }
            ["reader", name] => {
                let (at, instance) = instance("reader", name, self.readers)?;
                Ok(Target::Reader(at, instance))
            }
            ["gatekeeper", name] => {
                let (at, instance) = instance("gatekeeper", name, self.gatekeepers)?;
                Ok(Target::Gatekeeper(at, instance))
            }
            ["registry"] if self.registries > 0 => Ok(Target::Registry(None)),
            [text] if text.starts_with("registry/") => {
                let (_, instance) = instance("registry", text, &[("registry".to_owned(), self.registries)])?;
                Ok(Target::Registry(instance))
            }
            ["lake", name] => {
                Ok(Target::Lake(place("Iceberg table", name, self.lakes.iter().map(String::as_str))? as u16))
            }
            ["clickhouse", name] => {
                Ok(Target::ClickHouse(
                    place("ClickHouse server", name, self.clickhouse.iter().map(String::as_str))? as u16
                ))
            }
            ["table", name] => Ok(Target::Table(place("table", name, self.tables.iter().map(String::as_str))? as u16)),
            ["machine", name] => {
                Ok(Target::Machine(place("machine", name, self.machines.iter().map(String::as_str))? as u16))
            }
            _ => {
                let help = match nearest(text, FORMS.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("a target is one of: {}", FORMS.join(", ")),
                };
                Err((format!("`{text}` is no target"), Some(help)))
            }
        }
    }

    /// Reads `events/3`.
    ///
    /// # Errors
    /// What is wrong, and advice.
    pub fn partition(&self, text: &str) -> Result<TopicPartition, (String, Option<String>)> {
        let Some((topic, number)) = text.rsplit_once('/') else {
            return Err((format!("`{text}` is no partition"), Some("a partition is TOPIC/N, as in events/3".into())));
        };
        let topic = self.topic(topic)?;
        let (name, partitions) = &self.topics[usize::from(topic.0)];
        match number.parse::<u16>() {
            Ok(partition) if partition < *partitions => Ok(TopicPartition { topic, partition }),
            _ => {
                let help = format!("partitions of {name} are 0 to {}", partitions - 1);
                Err((format!("{name} has no partition {number}"), Some(help)))
            }
        }
    }

    /// Reads a topic's name.
    ///
    /// # Errors
    /// What is wrong, and advice.
    pub fn topic(&self, text: &str) -> Result<TopicId, (String, Option<String>)> {
        let at = place("topic", text, self.topics.iter().map(|t| t.0.as_str()))?;
        Ok(TopicId(at as u16))
    }
}

/// Reads `shop` or `shop/1`.
fn instance(what: &str, text: &str, list: &[(String, u16)]) -> Result<(u16, Option<u16>), (String, Option<String>)> {
    let (name, number) = match text.rsplit_once('/') {
        Some((name, n)) => (name, Some(n)),
        None => (text, None),
    };
    let at = place(what, name, list.iter().map(|a| a.0.as_str()))?;
    let number = match number {
        None => None,
        Some(n) => match n.parse::<u16>() {
            Ok(n) if n < list[at].1 => Some(n),
            _ => {
                let help = format!("instances are 0 to {}", list[at].1 - 1);
                return Err((format!("{name} has no instance {n}"), Some(help)));
            }
        },
    };
    Ok((at as u16, number))
}

fn place<'a>(
    what: &str,
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<usize, (String, Option<String>)> {
    names.clone().position(|n| n == name).ok_or_else(|| {
        let help = match nearest(name, names.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.clone().next().is_none() => format!("the scenario has no {what}"),
            None => format!("there is {}", names.collect::<Vec<_>>().join(", ")),
        };
        (format!("there is no {what} `{name}`"), Some(help))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_read_as_people_write_them() {
        let (topics, applications) = ([("events".to_owned(), 6)], [("shop".to_owned(), 2)]);
        let groups = ["billing".to_owned()];
        let (applications, groups) = (&applications, &groups);
        let (gatekeepers, registries, machines) = (&[][..], 0, &[][..]);
        let names = Names {
            brokers: 3,
            topics: &topics,
            applications,
            readers: &[],
            groups,
            gatekeepers,
            registries,
            tables: &[],
            clickhouse: &[],
            jobs: &["meter".to_owned()],
            lakes: &[],
            task_managers: 2,
            machines,
            sinks: &[SinkName { name: "cost".into(), subtasks: 2, job: 1, topic: "events".into() }],
        };
        assert_eq!(names.target("coordinator of group billing"), Ok(Target::CoordinatorOfGroup(0)));
        let sink = Target::CoordinatorOfSink(1, TopicId(0), 1);
        assert_eq!(names.target("coordinator of sink cost/1"), Ok(sink));
        assert_eq!(names.target("controller"), Ok(Target::Controller));
        assert_eq!(names.target("task manager of meter"), Ok(Target::TaskManagerOf(0)));
        assert!(names.target("task manager of metre").unwrap_err().1.unwrap().contains("meter"));
        assert_eq!(names.target("leader of events/3"), Ok(Target::LeaderOf(TopicPartition::new(0, 3))));
        assert_eq!(names.target("application shop/1"), Ok(Target::Application(0, Some(1))));
        assert_eq!(names.target("coordinator of shop"), Ok(Target::CoordinatorOf(0, 0)));
        assert_eq!(names.target("coordinator of shop/1"), Ok(Target::CoordinatorOf(0, 1)));
        assert_eq!(names.target("coordinator of shop/2").unwrap_err().1.unwrap(), "instances are 0 to 1");
        assert_eq!(names.target("broker 4").unwrap_err().1.unwrap(), "brokers are 1 to 3");
        assert_eq!(names.target("leader of event/3").unwrap_err().1.unwrap(), "did you mean `events`?");
        assert!(names.target("leader of events/6").unwrap_err().1.unwrap().contains("0 to 5"));
        assert_eq!(names.target("contoller").unwrap_err().1.unwrap(), "did you mean `controller`?");
        assert!(names.target("").is_err());
    }
}
