package bench

import (
	"context"
	"strings"
)

// A row describes a figure. Names and units are for programs: their meaning never changes.
type row struct {
	name, unit string
	// reach is the target in the row's unit: a minimum for rates and sessions, otherwise a maximum;
	// 0: none.
	reach  float64
	what   string
	beside string // for a yardstick: the figure to compare it with
}

// A group is a set of figures that are measured and shown together. short is the name used in
// Config.Only.
type group struct {
	short, title string
	run          func(*runner, context.Context) ([]Figure, error)
	rows         []row
}

// languages are the languages of programs, as suffixes of names of figures.
var languages = []string{"ts", "py"}

// listGroups returns all figures, in the order of the report.
func listGroups() []group {
	return []group{
		{"start", "a process, from its start to its answer", (*runner).measureStart, startRows},
		{"execute", "execute, as an agent sees it over MCP", (*runner).measureExecute, executeRows},
		{"calls", "calls of tools of an MCP server over stdio", (*runner).measureCalls, callRows},
		{"engine", "inside the engine, in one process", (*runner).measureInProcess, engineRows},
		{"child", "through the child process that the engine runs in", (*runner).measureInChild, childRows},
		{"tiers", "process sandboxes, the driver alone", (*runner).measureTiers, tierRows},
		{"stop", "programs that never end: how long past their deadline, through the child process",
			(*runner).measureStops, stopRows},
		{"density", "how much one machine holds", (*runner).measureDensity, densityRows},
		{"cpu", "programs that only compute", (*runner).measureCPU, cpuRows()},
		{"search", "search", (*runner).measureSearch, searchRows},
		{"record", "the record of a call: its begin and its end", (*runner).measureRecords, recordRows},
		{"tokens", "what an agent's model reads", (*runner).measureTokens, tokenRows()},
	}
}

var startRows = []row{
	{name: "cold_start", unit: "ms", reach: 15,
		what: "biplane run -c 1+1, to its first line: store, engine, sandbox, record"},
	{name: "process_start", unit: "ms", what: "biplane version: nothing but the process"},
}

var executeRows = []row{
	{name: "execute_stdio", unit: "ms", reach: 1.5, what: "execute of 1+1 over stdio, the whole round trip"},
	{name: "execute_http", unit: "ms", what: "the same over Streamable HTTP"},
	{name: "execute_30_lines", unit: "ms", what: "a program of 30 lines, over stdio"},
	{name: "execute_py", unit: "ms", what: "1+1 in Python, over stdio"},
	{name: "execute_per_second", unit: "1/s", what: "1+1 over stdio, many at once, all cores"},
	{name: "session_reuse", unit: "ms", what: "x+1 in a session that is there, over stdio, its state saved"},
	{name: "session_reuse_py", unit: "ms", what: "the same in Python"},
	{name: "memory_idle_bytes", unit: "bytes",
		what: "resident in an idle biplane mcp and its children before its first program; shared pages count once"},
	{name: "memory_100_waiting_bytes", unit: "bytes",
		what: "resident in it and its children while 100 programs wait for a tool, counted in the same way"},
}

var callRows = []row{
	{name: "call_direct_read", unit: "ms", what: "a tool that only reads, called by the agent"},
	{name: "call_inside_read", unit: "ms",
		what: "the same from inside a program: the mean of 100 in a row, less an empty program"},
	{name: "call_direct_write", unit: "ms",
		what: "a tool that may write, called by the agent: its record is on the disk before the call leaves"},
	{name: "call_inside_write", unit: "ms", what: "the same from inside a program"},
	{name: "parallel_100x50ms", unit: "ms", what: "100 calls of 50 ms with Promise.all, the whole program"},
	{name: "sequential_100x50ms", unit: "ms", what: "the same one after the other"},
}

// The stages are measured for a driver on its own, inside the engine and through the child process.
const (
	fresh        = "fresh"         // a new sandbox to its first value
	toolCall     = "tool_call"     // a tool call that is answered immediately
	suspend      = "suspend"       // packed, sealed, written
	resume       = "resume"        // read, opened, restored, a first value
	resumeMemory = "resume_memory" // restored from packed bytes in memory, a first value
	fork         = "fork"          // a copy of a session
	forkValue    = "fork_value"    // a copy of a session to its first value
)

var engineRows = []row{
	{name: "fresh_ts_engine", unit: "ms", reach: .05,
		what: "a fresh TypeScript sandbox to the value of 1+1; the program is prepared"},
	{name: "fresh_py_engine", unit: "ms", what: "the same in Python"},
	{name: "tool_call_ts_engine", unit: "us",
		what: "await of a tool that is answered at once: from the answer to the next call"},
	{name: "tool_call_py_engine", unit: "us", what: "the same in Python"},
	{name: "suspend_ts_engine", unit: "ms",
		what: "a session after a program of 30 lines: packed, sealed, written (not flushed)"},
	{name: "suspend_py_engine", unit: "ms", what: "the same in Python"},
	{name: "resume_ts_engine", unit: "ms",
		what: "that session from its file to the value of a variable: read, opened, restored"},
	{name: "resume_py_engine", unit: "ms", what: "the same in Python"},
	{name: "resume_memory_ts_engine", unit: "ms", what: "from packed bytes in memory to the value of a variable"},
	{name: "resume_memory_py_engine", unit: "ms", what: "the same in Python"},
	{name: "fork_ts_engine", unit: "ms",
		what: "that session copied; the copy of a saved one has memory when it first runs (fork_value)"},
	{name: "fork_py_engine", unit: "ms", what: "the same in Python"},
	{name: "fork_value_ts_engine", unit: "ms", what: "that session copied, and the value of a variable in the copy"},
	{name: "fork_value_py_engine", unit: "ms", what: "the same in Python"},
}

var childRows = []row{
	{name: "fresh_ts", unit: "ms", reach: .2,
		what: "a fresh TypeScript sandbox to the value of 1+1; the program is prepared"},
	{name: "fresh_py", unit: "ms", what: "the same in Python"},
	{name: "tool_call", unit: "us", reach: 20, what: "await of a tool that is answered at once: from the answer to " +
		"the next call, through the socket pair both ways"},
	{name: "tool_call_py", unit: "us", what: "the same in Python"},
	{name: "suspend_ts", unit: "ms",
		what: "a session after a program of 30 lines: packed, sealed, written (not flushed)"},
	{name: "suspend_py", unit: "ms", what: "the same in Python"},
	{name: "resume_ts", unit: "ms", reach: .5,
		what: "that session from its file to the value of a variable: read, opened, restored"},
	{name: "resume_py", unit: "ms", reach: 2, what: "the same in Python"},
	{name: "resume_memory_ts", unit: "ms", what: "from packed bytes in memory to the value of a variable"},
	{name: "resume_memory_py", unit: "ms", what: "the same in Python"},
	{name: "fork_ts", unit: "ms", reach: .1,
		what: "that session copied; the copy of a saved one has memory when it first runs (fork_value)"},
	{name: "fork_py", unit: "ms", reach: 1, what: "the same in Python"},
	{name: "fork_value_ts", unit: "ms", what: "that session copied, and the value of a variable in the copy"},
	{name: "fork_value_py", unit: "ms", what: "the same in Python"},
}

var stopRows = []row{
	{name: "stop_ts", unit: "ms", reach: 50,
		what: "endless loops, one around its own try and catch, floods of promises; nothing else runs"},
	{name: "stop_builtin_ts", unit: "ms", reach: 50,
		what: "inside a regular expression, a power of BigInts, a sort, a search in a long text"},
	{name: "stop_py", unit: "ms", reach: 50,
		what: "in Python: endless loops, one around its own try and except, a power of large numbers"},
	{name: "stop_ts_busy", unit: "ms", reach: 50,
		what: "the first while another principal's programs hold all processors"},
	{name: "stop_builtin_ts_busy", unit: "ms", reach: 50, what: "the second likewise"},
	{name: "stop_py_busy", unit: "ms", reach: 50, what: "the third likewise"},
}

var densityRows = []row{
	{name: "suspended_bytes", unit: "bytes", reach: 60_000,
		what: "a TypeScript session's state on disk after a program of 30 lines"},
	{name: "suspended_bytes_py", unit: "bytes", reach: 150_000, what: "the same in Python"},
	{name: "suspended_memory_bytes", unit: "bytes", reach: nothing,
		what: "memory of the process for one more suspended session, of 900 in three parts, the part in which it " +
			"grew least; 900 others were there before, so that caches which have a bound are full (the store's: 16 MiB)"},
	{name: "sessions_per_gib_ts", unit: "sessions", reach: 5000,
		what: "hot sessions after a program of 30 lines: saved, and answering without the disk; few of them stay " +
			"mapped, the others packed. What each adds to the process (its share of pages, and page tables)"},
	{name: "sessions_per_gib_py", unit: "sessions", reach: 1000, what: "the same in Python"},
	{name: "executions_per_second_ts", unit: "1/s", reach: 5000,
		what: "fresh sandboxes, each to the value of 1+1 and closed: the engine on one core"},
	{name: "executions_per_second_py", unit: "1/s", reach: 200, what: "the same in Python"},
	{name: "executions_per_second_ts_all", unit: "1/s", what: "the same through the child process, all cores"},
	{name: "executions_per_second_py_all", unit: "1/s", what: "the same in Python"},
}

// nothing is a target of zero.
const nothing = 1e-9

var searchRows = []row{
	{name: "search_100", unit: "ms", what: "among 100 tools, the answer's text included"},
	{name: "search_index_100", unit: "ms", what: "the first one: it makes the index"},
	{name: "search_10000", unit: "ms", what: "among 10,000 tools"},
	{name: "search_index_10000", unit: "ms", what: "the first one"},
	{name: "search_recall_percent", unit: "percent", what: "queries with their tool among the first five hits"},
}

var recordRows = []row{
	{name: "record_write", unit: "ms", what: "on the disk before the call leaves, one after the other"},
	{name: "record_write_64_per_second", unit: "1/s", what: "the same, 64 at once"},
	{name: "record_read", unit: "ms", what: "of a tool that only reads, one after the other"},
	{name: "record_read_64_per_second", unit: "1/s", what: "the same, 64 at once"},
	{name: "record_cost_percent", unit: "percent", reach: 10, what: "what the record adds to execute of a program " +
		"with 10 calls, one after the other, of a tool that may write and takes 10 ms, of an MCP server over stdio; " +
		"with and without by turns, the journal in both, and what one leaves to be written is written before the next"},
	{name: "record_cost_instant_percent", unit: "percent", reach: 10,
		what: "the same of a tool that only reads, and answers at once"},
	{name: "record_cost_instant_write_percent", unit: "percent", reach: 10,
		what: "the same of a tool that may write, and answers at once"},
	{name: "record_cost_instant_parallel_percent", unit: "percent", reach: 10, what: "the same, the 10 calls at once"},
	{name: "record_append_per_second", unit: "1/s",
		what: "calls recorded, begun and ended, 64 at once: 1,000,000 of them, in ten parts"},
	{name: "record_verify", unit: "ms",
		what: "all of these verified: each leaf, the tree, the checkpoint, the pairs, what is kept, the database"},
	{name: "record_prove", unit: "ms", what: "the proof that one of them is there, made and checked"},
	{name: "record_bytes", unit: "bytes",
		what: "on the disk for one of them: two leaves, hashes, indexes, kept arguments"},
}

// The CPU set: each program's name in names of figures (which is also its function in cpu.js and
// cpu.py), and a description.
var computations = []struct{ name, what string }{
	{"fib", "fib(27), recursively"},
	{"json", "5 MB of JSON, parsed and written"},
	{"sort", "200,000 objects by a key"},
	{"regex", "1 MB of text: addresses found, and split at spaces"},
	{"aggregate", "20,000 rows made, grouped, averaged, filtered and sorted"},
}

func cpuRows() []row {
	var out []row
	for _, c := range computations {
		out = append(out,
			row{name: "cpu_" + c.name + "_ts", unit: "ms", what: c.what},
			row{name: "cpu_" + c.name + "_py", unit: "ms", what: "the same in Python"})
	}
	return out
}

// The ways of the demonstration, in order, as used in names of figures.
var ways = []struct{ name, what string }{
	{"tools", "tool by tool"}, {"parallel", "with parallel calls"}, {"program", "as one program"},
}

func tokenRows() []row {
	out := []row{
		{name: "tools_direct_tokens", unit: "tokens",
			what: "definitions of the tools of the demonstration's two servers, in mode direct"},
		{name: "tools_code_tokens", unit: "tokens",
			what: "definitions of the three tools of mode code, however many there are behind them"},
	}
	for _, part := range []struct{ name, what string }{
		{"definitions", "the demonstration's job, %: definitions of tools"}, {"calls", "%: the model's calls"},
		{"results", "%: results of the calls"},
		{"context", "%: the context at the end"}, {"read", "%: read over all turns"},
	} {
		for _, w := range ways {
			out = append(out, row{name: "demo_" + part.name + "_" + w.name + "_tokens", unit: "tokens",
				what: strings.Replace(part.what, "%", w.what, 1)})
		}
	}
	return out
}

// listYardsticks returns comparable figures of other programs, if they are installed.
func listYardsticks() []row {
	return append([]row{
		{name: "node_start", unit: "ms", what: "node, from its start to the line of 1+1", beside: "cold_start"},
		{name: "deno_start", unit: "ms", what: "deno, the same", beside: "cold_start"},
		{name: "python3_start", unit: "ms", what: "python3, the same", beside: "cold_start"},
		{name: "node_vm_context", unit: "ms", what: "a new vm context in a running node (no wall) to the value of 1+1",
			beside: "fresh_ts"},
		{name: "bwrap_cold", unit: "ms", beside: "process_cold",
			what: "bubblewrap with its namespaces, without cgroup, Landlock and seccomp, to the end of /bin/true"},
	}, cpuYardsticks()...)
}

// gatewayRows are the yardsticks for each gateway that the user named. The gateway's name is added
// as a prefix.
var gatewayRows = []row{
	{name: "_initialize", unit: "ms", what: "from the start of its process to the end of the handshake"},
	{name: "_tools_list_bytes", unit: "bytes",
		what: "names, descriptions and input schemas of its tools, as a model gets them"},
	{name: "_tools_list_tokens", unit: "tokens", what: "the same in tokens"},
	{name: "_call", unit: "ms", what: "the round trip of its cheapest call that succeeded: below"},
	{name: "_pass", unit: "ms", what: "the round trip of a tool behind it that returns its argument"},
	{name: "_pass_per_second", unit: "1/s", what: "the same from 16 clients at once"},
	{name: "_memory_bytes", unit: "bytes",
		what: "resident in its idle processes after these calls, its servers included; shared pages count once"},
}

func cpuYardsticks() []row {
	var out []row
	for _, c := range computations {
		out = append(out,
			row{name: "node_cpu_" + c.name, unit: "ms", what: "the same file in node", beside: "cpu_" + c.name + "_ts"},
			row{name: "python3_cpu_" + c.name, unit: "ms", what: "the same file in python3",
				beside: "cpu_" + c.name + "_py"})
	}
	return out
}

// atLeast reports whether more is better.
func (r row) atLeast() bool { return r.unit == "1/s" || r.unit == "sessions" }

// findRow returns the row of a name. Rows of gateways that the user named are found by their
// suffixes.
func findRow(name string) row {
	for _, g := range listGroups() {
		for _, r := range g.rows {
			if r.name == name {
				return r
			}
		}
	}
	for _, y := range listYardsticks() {
		if y.name == name {
			return y
		}
	}
	for _, made := range gatewayRows {
		if strings.HasSuffix(name, made.name) {
			made.name = name
			return made
		}
	}
	return row{name: name, unit: "ms"}
}

func unitOf(name string) string { return findRow(name).unit }
