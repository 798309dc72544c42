//! Every process that can be simulated: the world holds one enum, no boxed traits.

use crate::app::{Gatekeeper, GatekeeperConfig, ProducerApp, ProducerAppConfig, ReaderApp, ReaderAppConfig};
use crate::base::{Cx, Disk, FileId, Foreign, ForeignMessage, Input, Lane, Port, Process, Stream};
use crate::clickhouse::{ClickHouse, ClickHouseConfig};
use crate::flink::runtime::job_manager::{self, JobManager, JobManagerConfig};
use crate::flink::runtime::task_manager::{TaskManager, TaskManagerConfig};
use crate::kafka::broker::node::Node;
use crate::kafka::broker::node::config::NodeConfig;
use crate::kafka::broker::node::disk::{NodeDisk, NodeWrite};
use crate::kafka::messages::Message;
use crate::keyed_table::{KeyedTable, KeyedTableConfig};
use crate::lake::{LakeConfig, Lakehouse};
use crate::registry::process::{Registry, RegistryConfig};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How an actor is started.
#[derive(Clone, Debug)]
pub enum ActorConfig {
    /// A node of the cluster.
    Node(Arc<NodeConfig>),
    /// An application that sends.
    Producer(Arc<ProducerAppConfig>),
    /// An application that reads.
    Reader(Arc<ReaderAppConfig>),
    /// Flink's JobManager.
    JobManager(Arc<JobManagerConfig>),
    /// A TaskManager.
    TaskManager(Arc<TaskManagerConfig>),
    /// A gatekeeper.
    Gatekeeper(Arc<GatekeeperConfig>),
    /// A schema registry.
    Registry(Arc<RegistryConfig>),
    /// A keyed table's database.
    KeyedTable(Arc<KeyedTableConfig>),
    /// A ClickHouse server.
    ClickHouse(Arc<ClickHouseConfig>),
    /// A lakehouse: catalog and object store.
    Lake(Arc<LakeConfig>),
}

/// An actor's disk. Which kind it is shows with the first write.
#[derive(Clone, Debug, Default)]
pub enum ActorDisk {
    /// Nothing written.
    #[default]
    Empty,
    /// A node's.
    Node(Box<NodeDisk>),
    /// What a process that is no node keeps, by file. It outlives power too, but for what is not [`ForeignMessage::durable`].
    Kept(BTreeMap<FileId, Foreign>),
}
impl ActorDisk {
    /// A node's disk.
    pub fn node(&self) -> Option<&NodeDisk> {
        match self {
            Self::Node(disk) => Some(disk),
            Self::Empty | Self::Kept(_) => None,
        }
    }
    /// What a file outside holds.
    fn kept<M: ForeignMessage>(&self, file: FileId) -> Option<&M> {
        match self {
            Self::Kept(files) => files.get(&file)?.get(),
            Self::Empty | Self::Node(_) => None,
        }
    }
    /// What all files outside hold, in their order.
    fn all_kept<M: ForeignMessage>(&self) -> impl Iterator<Item = &M> {
        self.files().map(|(_, content)| content)
    }
    /// The files of a process that is no node, of this kind.
    pub fn files<M: ForeignMessage>(&self) -> impl Iterator<Item = (FileId, &M)> {
        let files = match self {
            Self::Kept(files) => Some(files),
            Self::Empty | Self::Node(_) => None,
        };
        files.into_iter().flatten().filter_map(|(file, content)| Some((*file, content.get()?)))
    }
}
impl Disk for ActorDisk {
    type Write = NodeWrite;
    fn apply(&mut self, file: FileId, write: &NodeWrite) {
        if let Self::Empty = self {
            *self = match write {
                NodeWrite::Foreign(_) => Self::Kept(BTreeMap::new()),
                _ => Self::Node(Box::default()),
            };
        }
        match (self, write) {
            (Self::Node(disk), write) => disk.apply(file, write),
            (Self::Kept(files), NodeWrite::Foreign(content)) => {
                files.insert(file, content.clone());
            }
            (Self::Kept(_) | Self::Empty, _) => {}
        }
    }
    fn mark(&self, file: FileId) -> u64 {
        self.node().map_or(0, |d| d.mark(file))
    }
    fn flushed(&mut self, file: FileId, mark: u64) {
        if let Self::Node(disk) = self {
            disk.flushed(file, mark);
        }
    }
    fn bytes(write: &NodeWrite) -> u64 {
        NodeDisk::bytes(write)
    }
    fn lose_power(&mut self, stream: &mut Stream) {
        match self {
            Self::Node(disk) => disk.lose_power(stream),
            // What lies in the page cache may have been written back by itself.
            Self::Kept(files) => files.retain(|_, content| content.durable() || stream.chance(1, 2)),
            Self::Empty => {}
        }
    }
}

/// An actor.
#[derive(Clone, Debug)]
pub enum Actor {
    /// A node of the cluster.
    Node(Box<Node>),
    /// An application that sends.
    Producer(Box<ProducerApp>),
    /// An application that reads.
    Reader(Box<ReaderApp>),
    /// Flink's JobManager.
    JobManager(Box<JobManager>),
    /// A TaskManager.
    TaskManager(Box<TaskManager>),
    /// A gatekeeper.
    Gatekeeper(Box<Gatekeeper>),
    /// A schema registry.
    Registry(Box<Registry>),
    /// A keyed table's database.
    KeyedTable(Box<KeyedTable>),
    /// A ClickHouse server.
    ClickHouse(Box<ClickHouse>),
    /// A lakehouse: catalog and object store.
    Lake(Box<Lakehouse>),
}
impl Actor {
    /// The node, if it is one.
    pub fn node(&self) -> Option<&Node> {
        match self {
            Self::Node(node) => Some(node),
            _ => None,
        }
    }
    /// The sending application, if it is one.
    pub fn producer(&self) -> Option<&ProducerApp> {
        match self {
            Self::Producer(app) => Some(app),
            _ => None,
        }
    }
    /// The gatekeeper, if it is one.
    pub fn gatekeeper(&self) -> Option<&Gatekeeper> {
        match self {
            Self::Gatekeeper(app) => Some(app),
            _ => None,
        }
    }
    /// The reading application, if it is one.
    pub fn reader(&self) -> Option<&ReaderApp> {
        match self {
            Self::Reader(app) => Some(app),
            _ => None,
        }
    }
    /// The JobManager, if it is one.
    pub fn job_manager(&self) -> Option<&JobManager> {
        match self {
            Self::JobManager(manager) => Some(manager),
            _ => None,
        }
    }
    /// The keyed table, if it is one.
    pub fn keyed_table(&self) -> Option<&KeyedTable> {
        match self {
            Self::KeyedTable(table) => Some(table),
            _ => None,
        }
    }
    /// The lakehouse, if it is one.
    pub fn lake(&self) -> Option<&Lakehouse> {
        match self {
            Self::Lake(lake) => Some(lake),
            _ => None,
        }
    }
    /// The ClickHouse server, if it is one.
    pub fn clickhouse(&self) -> Option<&ClickHouse> {
        match self {
            Self::ClickHouse(server) => Some(server),
            _ => None,
        }
    }
    /// The TaskManager, if it is one.
    pub fn task_manager(&self) -> Option<&TaskManager> {
        match self {
            Self::TaskManager(manager) => Some(manager),
            _ => None,
        }
    }
}

impl Process for Actor {
    type Config = ActorConfig;
    type Disk = ActorDisk;
    type Message = Message;

    fn start(config: &Arc<ActorConfig>, disk: &ActorDisk, cx: &mut Cx<'_, Message, NodeWrite>) -> Self {
        match &**config {
            ActorConfig::Node(config) => {
                let empty = NodeDisk::default();
                Self::Node(Box::new(Node::start(config, disk.node().unwrap_or(&empty), cx)))
            }
            ActorConfig::Producer(config) => Self::Producer(Box::new(ProducerApp::start(config, cx))),
            ActorConfig::Reader(config) => Self::Reader(Box::new(ReaderApp::start(config, cx))),
            ActorConfig::JobManager(config) => {
                Self::JobManager(Box::new(JobManager::start(config, disk.kept(job_manager::STORE), cx)))
            }
            ActorConfig::TaskManager(config) => Self::TaskManager(Box::new(TaskManager::start(config, cx))),
            ActorConfig::Gatekeeper(config) => Self::Gatekeeper(Box::new(Gatekeeper::start(config, cx))),
            ActorConfig::Registry(config) => Self::Registry(Box::new(Registry::start(config, cx))),
            ActorConfig::Lake(config) => Self::Lake(Box::new(Lakehouse::start(config, disk.files(), cx))),
            ActorConfig::ClickHouse(config) => Self::ClickHouse(Box::new(ClickHouse::start(config, disk.files(), cx))),
            ActorConfig::KeyedTable(config) => {
                Self::KeyedTable(Box::new(KeyedTable::start(config, disk.all_kept(), cx)))
            }
        }
    }
    fn step(&mut self, port: Port, input: Input<Message>, cx: &mut Cx<'_, Message, NodeWrite>) {
        match self {
            Self::Node(node) => node.step(port, input, cx),
            Self::Producer(app) => app.step(input, cx),
            Self::Reader(app) => app.step(input, cx),
            Self::JobManager(manager) => manager.step(port, &input, cx),
            Self::TaskManager(manager) => manager.step(port, input, cx),
            Self::Gatekeeper(app) => app.step(input, cx),
            Self::Registry(registry) => registry.step(input, cx),
            Self::KeyedTable(table) => table.step(input, cx),
            Self::ClickHouse(server) => server.step(port, input, cx),
            Self::Lake(lake) => lake.step(port, input, cx),
        }
    }
    fn lane(&self, port: Port) -> Lane {
        match self {
            Self::Node(node) => node.lane(port),
            Self::Producer(app) => app.lane(port),
            Self::Reader(app) => app.lane(port),
            Self::JobManager(manager) => manager.lane(port),
            Self::TaskManager(manager) => manager.lane(port),
            Self::Gatekeeper(app) => app.lane(port),
            Self::Registry(registry) => registry.lane(port),
            Self::KeyedTable(table) => table.lane(port),
            Self::ClickHouse(server) => server.lane(port),
            Self::Lake(lake) => lake.lane(port),
        }
    }
}
