//! Jobs in the loader: what is shipped loads as a graph, each mistake is said at its place.

use super::data::{FaultSpec, NodeKind, Target};
use super::*;
use crate::judge::Reading;
use model::base::Millis;
use model::flink::operator::Assigner;
use model::flink::runtime::graph::KeyColumn;
use model::flink::runtime::operator::{Expr, OperatorConfig};
use model::flink::source::Strategy;

const GOOD: &str = r#"
description = "a good one"
[[topics]]
name = "requests"
[[topics]]
name = "cost"
[[applications]]
name = "gateway"
topic = "requests"
[[readers]]
name = "billing"
topics = ["cost"]
[workload]
kind = "gateway"
rate = 10
[[jobs]]
name = "meter"
config.execution.checkpointing.interval = "10 s"
config.parallelism.default = 2
[[jobs.sinks]]
name = "cost"
input = "minutes"
topic = "cost"
config.sink.delivery-guarantee = "exactly-once"
[[jobs.operators]]
name = "minutes"
kind = "window"
input = "assemble"
key = "tenant"
size = "1 min"
sum = "usd"
[[jobs.operators]]
name = "assemble"
kind = "join"
input = "in"
key = "request_id"
left = "type = 'RequestStarted'"
right = "type <> 'RequestStarted'"
columns = ["request_id", "tenant = left.tenant", "usd", "at = event_time"]
ttl = "10 min"
[[jobs.sources]]
name = "in"
topic = "requests"
watermark = { bound = "5 s", idle = "60 s" }
[[faults]]
kind = "kill"
target = "task manager 1"
at = "20 s"
"#;

fn refused(text: &str) -> String {
    load_text("job.toml", text.as_bytes(), &[]).map(|_| ()).unwrap_err().to_string()
}
fn problems(change: impl Fn(String) -> String) -> String {
    refused(&change(GOOD.to_owned()))
}
/// Each change of a good text, from and to, is refused with its message.
fn each_is_refused(good: &str, changes: &[(&str, &str, &str)]) {
    for (from, to, message) in changes {
        assert!(good.contains(from), "{from}");
        let text = refused(&good.replacen(from, to, 1));
        assert!(text.contains(message), "{to}: {message}\nin\n{text}");
        assert!(text.starts_with("job.toml:"), "{text}");
    }
}

#[test]
fn a_job_is_a_graph_in_order_with_numbered_columns() {
    let scenario = load_text("job.toml", GOOD.as_bytes(), &[]).map_err(|e| e.to_string()).unwrap().scenario;
    let job = &scenario.jobs[0];
    assert_eq!(job.nodes.iter().map(|n| n.name.as_str()).collect::<Vec<_>>(), ["in", "assemble", "minutes", "cost"]);
    let NodeKind::Operator(OperatorConfig::Join(join), Some(KeyColumn::Long(0))) = &job.nodes[1].kind else { panic!() };
    assert_eq!(join.columns, [Expr::Column(0), Expr::Left(2), Expr::Column(3), Expr::Time]);
    let NodeKind::Operator(OperatorConfig::Window(window), _) = &job.nodes[2].kind else { panic!() };
    assert_eq!((window.key, window.sum), (KeyColumn::Text(1), Some(2)));
    assert_eq!(window.assigner, Assigner::Tumbling { size: 60_000, offset: 0 });
    let named: Vec<_> = job.nodes[3].columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(named, ["window_end", "tenant", "usd", "count"]);
    assert_eq!(scenario.made_up_ids.iter().map(|p| &**p).collect::<Vec<_>>(), ["kafka-sink"]);
    let FaultSpec::One(fault) = &scenario.faults[0] else { panic!() };
    assert!(matches!(&fault.action, data::Action::Kill { target, .. } if *target == [Target::TaskManager(Some(1))]));
}

#[test]
fn what_comes_too_late_has_the_columns_of_what_the_window_takes() {
    let behind = "[[jobs.operators]]\nname = \"behind\"\nkind = \"map\"\ninput = \"minutes.late\"\ncolumns = [\"usd\", \"at\"]\n";
    let text = GOOD.replacen("[[jobs.operators]]", &format!("{behind}[[jobs.operators]]"), 1);
    let text = text.replacen("input = \"minutes\"", "input = \"behind\"", 1);
    let scenario = load_text("job.toml", text.as_bytes(), &[]).map_err(|e| e.to_string()).unwrap().scenario;
    let nodes = &scenario.jobs[0].nodes;
    let sink = nodes.iter().find(|n| n.is_sink()).expect("a sink");
    assert_eq!(sink.columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["usd", "at"]);
}

#[test]
fn a_window_of_sql_is_two_operators_unless_the_strategy_says_one() {
    let sql = GOOD.replacen("kind = \"window\"", "kind = \"sql-window\"", 1);
    let nodes = |text: &str| {
        let scenario = load_text("job.toml", text.as_bytes(), &[]).map_err(|e| e.to_string()).unwrap().scenario;
        let of = |n: &data::JobNode| {
            let NodeKind::Operator(operator, key) = &n.kind else { return (n.name.clone(), None, None) };
            (n.name.clone(), Some(operator.clone()), *key)
        };
        scenario.jobs[0].nodes.iter().map(of).collect::<Vec<_>>()
    };
    let two = nodes(&sql);
    assert_eq!(two[2].0, "minutes.local");
    let (Some(OperatorConfig::LocalWindow(local)), None) = (&two[2].1, two[2].2) else { panic!() };
    assert_eq!((local.key, local.sum), (KeyColumn::Sql(1), Some(2)));
    assert!(matches!(two[3], (_, Some(OperatorConfig::SqlWindow(_)), Some(KeyColumn::Sql(1)))));
    let strategy = "config.table.optimizer.agg-phase-strategy = \"ONE_PHASE\"\nconfig.parallelism";
    let one = nodes(&sql.replacen("config.parallelism", strategy, 1));
    assert_eq!(one.iter().map(|n| n.0.as_str()).collect::<Vec<_>>(), ["in", "assemble", "minutes", "cost"]);
    let session = nodes(&sql.replacen("size = \"1 min\"", "gap = \"1 min\"", 1));
    assert_eq!(session.len(), 4, "sessions have one phase");
    for (keys, message) in [
        ("size = \"1 min\"\nslide = \"40 s\"", "`size` is a multiple of `slide`"),
        ("size = \"1 min\"\nallowed-lateness = \"1 s\"", "no `allowed-lateness`"),
        ("step = \"1 min\"", "`minutes` has no window"),
    ] {
        let text = refused(&sql.replacen("size = \"1 min\"", keys, 1));
        assert!(text.contains(message), "{message}\nin\n{text}");
    }
}

const LATE_FIRE: &str = "config.table.exec.emit.late-fire.enabled = true
config.table.exec.emit.late-fire.delay = \"0 ms\"
config.table.exec.emit.allow-lateness = \"3 min\"
";
/// The good one with a group window that fires late, and a reader of its changelog.
fn changelog() -> String {
    GOOD.replacen("kind = \"window\"", "kind = \"group-window\"", 1)
        .replacen("config.parallelism", &format!("{LATE_FIRE}config.parallelism"), 1)
        .replacen("topics = [\"cost\"]", "topics = [\"cost\"]\nreads = \"ignores-retractions\"", 1)
}

#[test]
fn a_group_window_hands_on_a_changelog_and_fires_late_for_as_long_as_the_job_says() {
    let of = |text: &str| {
        let scenario = load_text("job.toml", text.as_bytes(), &[]).map_err(|e| e.to_string()).unwrap().scenario;
        let NodeKind::Operator(OperatorConfig::GroupWindow(window), key) = scenario.jobs[0].nodes[2].kind.clone()
        else {
            panic!()
        };
        assert_eq!(key, Some(KeyColumn::Sql(1)));
        let named: Vec<_> = scenario.jobs[0].nodes[3].columns.iter().map(|c| c.name.clone()).collect();
        (window, named, scenario.readers[0].reads)
    };
    let (window, named, reads) = of(&changelog());
    let tumble = Assigner::Tumbling { size: 60_000, offset: 0 };
    assert_eq!((window.assigner, window.late_fire), (tumble, Some(Millis(180_000))));
    assert_eq!(named, ["window_end", "tenant", "usd", "op"]);
    assert_eq!(reads, Reading::IgnoresRetractions);
    let (window, named, _) = of(&changelog().replacen("sum = \"usd\"\n", "", 1));
    assert_eq!((window.sum, &*named[2]), (None, "count"));
    // L2: the lateness counts with late fire only.
    let (window, ..) = of(&changelog().replacen("enabled = true", "enabled = false", 1));
    assert_eq!((window.late_fire, window.lateness()), (None, Millis::ZERO));
    let (window, ..) = of(&changelog().replacen("size = \"1 min\"", "size = \"1 min\"\nslide = \"25 s\"", 1));
    assert_eq!(window.assigner, Assigner::Sliding { size: 60_000, slide: 25_000, offset: 0 });
    let without = changelog().replacen("enabled = true", "enabled = false", 1);
    let (window, ..) = of(&without.replacen("size = \"1 min\"", "gap = \"1 min\"", 1));
    assert_eq!(window.assigner, Assigner::Session { gap: 60_000 });
}

#[test]
fn what_flink_refuses_of_late_fire_is_said() {
    let changes = [
        ("size = \"1 min\"", "gap = \"1 min\"", "SESSION has no late fire: the planner refuses it"),
        ("size = \"1 min\"", "size = \"1 min\"\nstep = \"10 s\"", "no `step`"),
        ("size = \"1 min\"\n", "", "`minutes` has no window"),
        ("config.table.exec.emit.allow-lateness = \"3 min\"\n", "", "late fire needs `table.exec.emit.allow-lateness`"),
        ("allow-lateness = \"3 min\"", "allow-lateness = \"0 ms\"", "late fire needs `table.exec.emit.allow-lateness`"),
        (
            "config.table.exec.emit.late-fire.delay = \"0 ms\"\n",
            "",
            "late fire needs `table.exec.emit.late-fire.delay`",
        ),
        ("delay = \"0 ms\"", "delay = \"5 s\"", "a timer of processing time: not modelled"),
        ("late-fire.enabled", "early-fire.enabled", "known to Flink, not modelled"),
        ("kind = \"group-window\"", "kind = \"sql-window\"", "is of group windows only: no table function fires late"),
        ("kind = \"group-window\"", "kind = \"window\"", "it reads no changelog"),
        (
            "input = \"minutes\"",
            "input = \"minutes.late\"",
            "is a window of SQL, which drops what is late (an operator of kind `window` has a late output)",
        ),
        (
            "[[jobs.sinks]]",
            "[[jobs.operators]]\nname = \"same\"\nkind = \"map\"\ninput = \"minutes\"\ncolumns = [\"usd\"]\n[[jobs.sinks]]",
            "`same` takes a changelog as if its rows were only added",
        ),
        (
            "[[jobs.sinks]]",
            "[[jobs.sources]]\nname = \"again\"\ntopic = \"cost\"\n[[jobs.sinks]]",
            "`cost` holds a changelog",
        ),
    ];
    each_is_refused(&changelog(), &changes);
}

#[test]
fn a_watermark_that_is_not_pushed_down_is_made_by_an_operator_in_the_sources_place() {
    let behind = GOOD.replacen("idle = \"60 s\"", "idle = \"60 s\", pushed-down = false, generator = \"sql\"", 1);
    let scenario = load_text("job.toml", behind.as_bytes(), &[]).map_err(|e| e.to_string()).unwrap().scenario;
    let nodes = &scenario.jobs[0].nodes;
    let names: Vec<_> = nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["in", "in.watermarks", "assemble", "minutes", "cost"]);
    let NodeKind::Operator(OperatorConfig::Assign(assign), None) = &nodes[1].kind else { panic!() };
    assert_eq!((assign.strategy, assign.idle_timeout), (Strategy::Sql(Millis(5_000)), Some(Millis(60_000))));
    assert!(matches!(nodes[0].kind, NodeKind::Source { watermarks: None, .. }));
    assert_eq!((nodes[1].input, nodes[2].input), (Some((0, false)), Some((1, false))));
}

#[test]
fn one_mistake_in_what_writes_a_topic_is_said_once() {
    let text = problems(|t| t.replacen("\"gateway\"\nrate = 10", "\"shoppers\"\nrate = 10\nlate-by = \"1 s\"", 1));
    assert!(text.contains("`late-by` is within") && !text.contains("nobody writes"), "{text}");
}

#[test]
fn a_cycle_is_said_once_and_nobody_beside_it_is_blamed() {
    let text = problems(|t| t.replacen("input = \"in\"", "input = \"minutes\"", 1));
    assert_eq!(text.matches("a cycle").count(), 1, "{text}");
    assert!(text.contains("takes its input from itself, through `"), "{text}");
    let text = problems(|t| t.replacen("name = \"in\"", "name = \"assemble\"", 1));
    assert!(!text.contains("a cycle"), "{text}");
}

#[test]
fn topics_of_one_source_hold_the_same_columns() {
    let with = |columns: &str| {
        GOOD.replacen("[[topics]]", "[[topics]]\nname = \"more\"\n[[topics]]", 1)
            .replacen("topic = \"requests\"\nwatermark", "topic = \"requests;more\"\nwatermark", 1)
            .replacen(
                "[[readers]]",
                &format!("[[applications]]\nname = \"other\"\ntopic = \"more\"\n{columns}\n[[readers]]"),
                1,
            )
    };
    let scenario = load_text("job.toml", with("").as_bytes(), &[]).map_err(|e| e.to_string()).unwrap().scenario;
    let NodeKind::Source { topics, .. } = &scenario.jobs[0].nodes[0].kind else { panic!() };
    assert_eq!(topics.len(), 2);
    let other = load_text("job.toml", with("workload = { kind = \"shoppers\", rate = 1 }").as_bytes(), &[]);
    let text = other.map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("`more` has other columns than the topic before"), "{text}");
}

#[test]
fn each_mistake_in_a_job_has_its_message() {
    let changes = [
        ("input = \"assemble\"", "input = \"asemble\"", "the job has no part `asemble` (did you mean `assemble`?)"),
        ("input = \"in\"", "input = \"minutes\"", "a cycle"),
        ("input = \"minutes\"", "input = \"cost\"", "a sink: it hands nothing on"),
        ("input = \"minutes\"", "input = \"assemble.late\"", "nothing comes late to it"),
        ("key = \"tenant\"", "key = \"tenants\"", "no column `tenants` (did you mean `tenant`?)"),
        ("key = \"tenant\"\n", "", "`minutes` has no `key`"),
        ("sum = \"usd\"", "sum = \"euro\"", "no column `euro`"),
        ("sum = \"usd\"", "sum = \"tenant\"", "`tenant` holds texts: a sum is of whole numbers"),
        ("watermark = { bound = \"5 s\", idle = \"60 s\" }", "", "`minutes` would never fire: no watermark comes from"),
        (
            "\"usd\", \"at = event_time\"",
            "\"usd = 5000000000000000000\", \"at = event_time\"",
            "each row has 5000000000000000000 in `usd`: the sum of two overflows a BIGINT",
        ),
        ("size = \"1 min\"\n", "", "`minutes` has no window"),
        ("size = \"1 min\"", "size = \"1 min\"\nttl = \"1 s\"", "no `ttl`"),
        ("left = \"type = 'RequestStarted'\"", "left = \"type is 1\"", "is no condition"),
        ("left = \"type = 'RequestStarted'\"", "left = \"request_id = 'a'\"", "holds numbers, not texts"),
        ("ttl = \"10 min\"\n", "", "a join has"),
        ("\"at = event_time\"", "\"at = left.at\"", "no column `at`"),
        ("topics = [\"cost\"]", "topics = [\"requests\"]", "nobody reads `cost`"),
        ("topic = \"requests\"\nwatermark", "topic = \"cost\"\nwatermark", "nobody writes `cost`"),
        ("interval = \"10 s\"", "interval = \"0 s\"", "exactly once needs checkpoints"),
        ("config.sink.delivery-guarantee", "config.sink.guarantee", "a sink has no key `sink.guarantee`"),
        (
            "config.sink.delivery-guarantee",
            "config.sink.transactional-id-prefix = \"\"\nconfig.sink.delivery-guarantee",
            "needs a `sink.transactional-id-prefix`",
        ),
        ("\"exactly-once\"", "\"exactly-onse\"", "is one of none, at-least-once, exactly-once"),
        ("config.parallelism.default = 2", "config.state.backend.type = \"rocksdb\"", "known to Flink, not modelled"),
        ("interval = \"10 s\"", "interval = \"10 parsecs\"", "a time of Flink's"),
        ("task manager 1", "task manager 2", "TaskManagers are 0 to 1"),
        ("parallelism.default = 2", "parallelism.default = 3", "`meter` needs 3 slots, and the cluster has 2"),
        ("topic = \"requests\"\nwatermark", "topic = \"requests; requests\"\nwatermark", "`requests` is there twice"),
        ("idle = \"60 s\"", "pushed-down = false, alignment = { max-drift = \"1 s\" }", "alignment is the source's"),
        (
            "config.parallelism.default = 2",
            "config.execution.checkpointing.unaligned.enabled = true\nconfig.execution.checkpointing.max-concurrent-checkpoints = 2",
            "unaligned checkpoints run one at a time",
        ),
        ("name = \"in\"", "name = \"in\"\nconfig.commit.offsets.on.checkpoint = true", "demands `group.id`"),
        ("name = \"in\"", "name = \"in\"\nuntil = [1, 2, 3]", "one offset each"),
        ("name = \"in\"", "name = \"in\"\nconfig.commit.offsets.on.checkpoints = true", "a source has no key"),
        ("kind = \"window\"", "kind = \"window\"\ncall = { to = \"payments\" }", "no `call`"),
        ("name = \"in\"", "name = \"assemble\"", "two parts of the job are called `assemble`"),
        ("rate = 10", "rate = 10\ncolumns = [\"a = /a\"]", "`columns` is for kind = \"events-file\""),
    ];
    each_is_refused(GOOD, &changes);
}

/// The first line that is said to be wrong, as the text has it.
fn first_line_blamed(text: &str) -> String {
    let said = refused(text);
    let line = said.split(':').nth(1).and_then(|line| line.parse::<usize>().ok());
    line.and_then(|line| text.lines().nth(line - 1)).map_or(said.clone(), str::to_owned)
}

#[test]
fn what_is_wrong_with_late_fire_is_said_at_its_key() {
    let (delay, lateness) = ("config.table.exec.emit.late-fire.delay = ", "config.table.exec.emit.allow-lateness = ");
    for (from, to, at) in [
        ("delay = \"0 ms\"", "delay = \"5 s\"", delay),
        ("allow-lateness = \"3 min\"", "allow-lateness = \"0 ms\"", lateness),
        ("config.table.exec.emit.late-fire.delay = \"0 ms\"\n", "", "config.table.exec.emit.late-fire.enabled"),
        ("config.table.exec.emit.allow-lateness = \"3 min\"\n", "", "config.table.exec.emit.late-fire.enabled"),
    ] {
        let line = first_line_blamed(&changelog().replacen(from, to, 1));
        assert!(line.starts_with(at), "{to}: {line}");
    }
    let line =
        first_line_blamed(&changelog().replacen("kind = \"group-window\"", "kind = \"sql-window\"", 1).replacen(
            "\nreads = \"ignores-retractions\"",
            "",
            1,
        ));
    assert!(line.starts_with("config.table.exec.emit."), "{line}");
    let table = "[[tables]]\nname = \"t\"\nkey = [\"window_end\"]\n[[jobs]]";
    let line = first_line_blamed(&changelog().replacen("[[jobs]]", table, 1).replacen(
        "[[jobs.operators]]",
        "[[jobs.sinks]]\nname = \"table\"\ninput = \"minutes\" # a changelog\ntable = \"t\"\n[[jobs.operators]]",
        1,
    ));
    assert!(line.ends_with("# a changelog"), "{line}");
}

/// The good one with a ClickHouse table that reads these topics.
fn stored(good: &str, topics: &str, columns: &str) -> String {
    let table = "[[clickhouse]]\nname = \"ch\"\n[[clickhouse.tables]]\nname = \"t\"";
    good.replacen("[[jobs]]", &format!("{table}\ntopics = {topics}\norder-by = {columns}\n[[jobs]]"), 1)
}

#[test]
fn a_mistake_in_a_window_is_said_once_whoever_takes_its_columns() {
    let good = stored(GOOD, "[\"cost\"]", "[\"window_end\", \"tenant\"]");
    assert!(load_text("job.toml", good.as_bytes(), &[]).is_ok(), "{}", refused(&good));
    // Who looks at what is not built is not wrong.
    let looked = "[[markings]]\nname = \"m\"\naggregate = \"cost\"\nevents = \"t\"\nlate = \"t\"\n[[jobs]]";
    let good = good.replacen("[[jobs]]", looked, 1);
    let behind = "[[jobs.operators]]\nname = \"behind\"\nkind = \"map\"\ninput = \"minutes\"\n\
                  columns = [\"window_end\", \"tenant\", \"usd\"]\n[[jobs.operators]]";
    let good = good.replacen("input = \"minutes\"", "input = \"behind\"", 1).replacen("[[jobs.operators]]", behind, 1);
    assert!(load_text("job.toml", good.as_bytes(), &[]).is_ok(), "{}", refused(&good));
    for (from, to) in [
        ("sum = \"usd\"", "sum = \"euro\""),
        ("sum = \"usd\"", "sum = 5"),
        ("size = \"1 min\"", "size = \"1\""),
        ("size = \"1 min\"\n", ""),
        ("key = \"tenant\"", "key = 7"),
        ("key = \"tenant\"", "key = \"tenants\""),
        ("watermark = { bound = \"5 s\", idle = \"60 s\" }", "watermark = { bound = 5 }"),
    ] {
        let said = refused(&good.replacen(from, to, 1));
        assert_eq!(said.lines().count(), 1, "{to}: {said}");
    }
    for (from, to) in [
        ("interval = \"10 s\"", "interval = \"10 parsecs\""),
        ("delay = \"0 ms\"", "delay = \"soon\""),
        ("allow-lateness = \"3 min\"", "allow-lateness = \"long\""),
    ] {
        let said = refused(&changelog().replacen(from, to, 1));
        assert_eq!(said.lines().count(), 1, "{to}: {said}");
    }
}

#[test]
fn names_that_stand_for_two_columns_are_refused() {
    each_is_refused(GOOD, &[("key = \"tenant\"", "key = \"usd\"", "`minutes` hands on two columns called `usd`")]);
    let counted =
        GOOD.replacen("\"usd\", \"at", "\"count = usd\", \"at", 1).replacen("sum = \"usd\"", "sum = \"count\"", 1);
    let said = refused(&counted);
    assert!(said.contains("`minutes` hands on two columns called `count`"), "{said}");
    assert!(first_line_blamed(&counted).starts_with("sum ="), "{said}");
    let ended = GOOD.replacen("\"tenant = left.tenant\"", "\"window_end = left.tenant\"", 1);
    let ended = ended.replacen("key = \"tenant\"", "key = \"window_end\"", 1);
    assert!(first_line_blamed(&ended).starts_with("key ="), "{}", refused(&ended));
    let twice = refused(&stored(GOOD, "[\"cost\"]", "[\"tenant\", \"tenant\"]"));
    assert!(twice.contains("`tenant` is there twice"), "{twice}");
    let table = "[[tables]]\nname = \"t\"\nkey = [\"tenant\", \"tenant\"]\n[[jobs]]";
    let upsert = "[[jobs.sinks]]\nname = \"table\"\ninput = \"minutes\"\ntable = \"t\"\n[[jobs.operators]]";
    let twice = refused(&GOOD.replacen("[[jobs]]", table, 1).replacen("[[jobs.operators]]", upsert, 1));
    assert!(twice.contains("`tenant` is there twice"), "{twice}");
}

#[test]
fn an_alignment_that_never_updates_is_refused() {
    let with = |every: &str| {
        let alignment =
            format!("idle = \"60 s\", alignment = {{ max-drift = \"1 s\", update-interval = \"{every}\" }}");
        GOOD.replacen("idle = \"60 s\"", &alignment, 1)
    };
    assert!(load_text("job.toml", with("10 ms").as_bytes(), &[]).is_ok());
    for every in ["0 s", "20 us"] {
        let said = refused(&with(every));
        assert!(said.contains("`update-interval` is a millisecond at least"), "{said}");
        assert!(first_line_blamed(&with(every)).starts_with("watermark ="), "{said}");
    }
}

/// Another window of the good one, and a sink that writes what `input` gives into a topic.
fn beside(kind: &str, size: &str, input: &str, topic: &str) -> String {
    let window = format!(
        "[[jobs.operators]]\nname = \"others\"\nkind = \"{kind}\"\ninput = \"assemble\"\nkey = \"tenant\"\n\
         size = \"{size}\"\nsum = \"usd\"\n"
    );
    format!("{window}[[jobs.sinks]]\nname = \"more\"\ninput = \"{input}\"\ntopic = \"{topic}\"\n[[jobs.operators]]")
}

#[test]
fn rows_that_mean_different_things_do_not_stand_in_one_topic() {
    let with = |text: &str| GOOD.replacen("[[jobs.operators]]", text, 1);
    for (text, message) in [
        (
            beside("window", "1 h", "others", "cost"),
            "`cost` holds windows of `minutes` (of `cost`), not windows of `others`",
        ),
        (
            beside("sql-window", "1 min", "others", "cost"),
            "`cost` holds windows of `minutes` (of `cost`), not windows of `others`",
        ),
        (beside("group-window", "1 min", "others", "cost"), "(of `cost`), not the changelog of `others`"),
        (beside("window", "1 h", "others.late", "cost"), "(of `cost`), not what is late for `others`"),
        (beside("window", "1 h", "assemble", "cost"), "(of `cost`), not pairs of `assemble`"),
        (
            beside("window", "1 h", "minutes", "cost"),
            "`more` writes into `cost` what `cost` writes there: each row twice",
        ),
    ] {
        let text = with(&text);
        let said = refused(&text);
        assert!(said.contains(message), "{message}\nin\n{said}");
        let own = text.lines().position(|l| l == "name = \"more\"").map(|line| line + 3);
        assert!(own.is_some_and(|line| said.contains(&format!("job.toml:{line}:9: "))), "{said}");
    }
    // A service that is called is no table of the bill.
    let table = "[[tables]]\nname = \"t\"\nkey = [\"tenant\"]\n[[jobs]]";
    let call = "[[jobs.sinks]]\nname = \"table\"\ninput = \"minutes\"\ntable = \"t\"\n\
                [[jobs.operators]]\nname = \"paid\"\nkind = \"map\"\ninput = \"in\"\n\
                columns = [\"window_end = usd\", \"tenant\"]\ncall = { to = \"t\" }\n[[jobs.operators]]";
    let said = refused(&with(call).replacen("[[jobs]]", table, 1));
    assert!(said.contains("`t` holds windows of `minutes` (of `table`), not rows of `paid`"), "{said}");
    // The same job once more, as one that takes up the work of the first: it does the same to the same.
    let job = &GOOD[GOOD.find("[[jobs]]").unwrap()..GOOD.find("[[faults]]").unwrap()];
    let again = job.replacen("name = \"meter\"", "name = \"again\"", 1);
    let two = GOOD.replacen("[[faults]]", &format!("{again}[[faults]]"), 1);
    assert!(load_text("job.toml", two.as_bytes(), &[]).is_ok(), "{}", refused(&two));
    let other = again.replacen("size = \"1 min\"", "size = \"2 min\"", 1);
    let said = refused(&GOOD.replacen("[[faults]]", &format!("{other}[[faults]]"), 1));
    assert!(said.contains("windows of `minutes` (of `cost`), not what job `again` makes otherwise"), "{said}");
}

#[test]
fn a_table_reads_topics_whose_rows_are_alike() {
    let said = refused(&stored(GOOD, "[\"requests\", \"cost\"]", "[\"key\"]"));
    assert!(said.contains("`cost` has other columns than the first topic"), "{said}");
    let said = refused(&stored(&changelog(), "[\"cost\", \"requests\"]", "[\"key\"]"));
    assert!(said.contains("of `cost` and `requests` one holds a changelog, the other does not"), "{said}");
}

#[test]
fn applications_send_the_same_columns_into_a_topic_that_a_job_reads() {
    let with = |workload: &str| {
        let other = format!("[[applications]]\nname = \"other\"\ntopic = \"requests\"\n{workload}\n[[readers]]");
        GOOD.replacen("[[readers]]", &other, 1)
    };
    assert!(load_text("job.toml", with("").as_bytes(), &[]).is_ok());
    let shoppers = with("workload = { kind = \"shoppers\", rate = 1 }");
    let said = refused(&shoppers);
    assert!(said.contains("`other` sends other columns into `requests` than `gateway`"), "{said}");
    assert!(first_line_blamed(&shoppers).starts_with("workload ="), "{said}");
}
