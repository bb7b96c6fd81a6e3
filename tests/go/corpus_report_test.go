package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A row is what is known of a subject, for people and for comparisons of two
// versions.
type row struct {
	Kernel      string  `json:"kernel"`
	Inputs      string  `json:"inputs"`
	Choice      string  `json:"choice"`
	Index       string  `json:"index"`
	Text        int     `json:"text"`       // statements of the kernel
	Statements  int64   `json:"statements"` // executed by all threads
	Simulated   float64 `json:"simulated"`  // milliseconds
	Sectors     int64   `json:"sectors"`
	Read        int64   `json:"read"` // bytes
	Written     int64   `json:"written"`
	Barriers    int64   `json:"barriers"`
	Conflicts   int64   `json:"conflicts"`
	Compiled    float64 `json:"compiled"` // milliseconds, for sm_90a
	Registers   int     `json:"registers"`
	Registers80 int     `json:"registers_sm_80"`
}

func (c *corpus) row(x *subject) row {
	r := row{Kernel: c.of[x].name, Inputs: x.inputs.label, Choice: x.choice, Index: x.Kernel.Index.Text(), Text: countStatements(x.Kernel)}
	if made := c.costs[x]; made != nil {
		n := made.counters
		r.Statements, r.Simulated, r.Sectors, r.Read, r.Written = n.Statements, made.milliseconds, n.GlobalSectors, n.GlobalRead, n.GlobalWritten
		r.Barriers, r.Conflicts = n.Barriers, n.BankConflicts
	}
	u := c.of[x]
	r.Compiled, r.Registers, r.Registers80 = u.compiled[1].Seconds*1e3, u.compiled[1].Functions[u.name].Registers, u.compiled[0].Functions[u.name].Registers
	return r
}

// report prints the costs of all subjects and writes them to build/corpus.json.
func (c *corpus) report(t *testing.T) {
	var rows []row
	var total row
	compiled := 0.0
	text := &strings.Builder{}
	fmt.Fprintf(text, "%-30s %-5s %5s %11s %9s %8s %9s %9s %4s %5s  %s\n", "kernel", "index", "text", "statements", "sim ms", "sectors", "read", "written", "regs", "ms", "inputs")
	for _, x := range c.subjects {
		r := c.row(x)
		rows = append(rows, r)
		fmt.Fprintf(text, "%-30s %-5s %5d %11d %9.2f %8d %9d %9d %4d %5.0f  %s; %s\n", r.Kernel, r.Index, r.Text, r.Statements, r.Simulated, r.Sectors, r.Read, r.Written,
			r.Registers, r.Compiled, r.Inputs, r.Choice)
		total.Statements += r.Statements
		total.Simulated += r.Simulated
		total.Sectors += r.Sectors
		total.Read += r.Read
		total.Written += r.Written
	}
	for _, u := range c.kernels {
		total.Text += countStatements(u.kernel)
		compiled += u.compiled[1].Seconds
	}
	fmt.Fprintf(text, "%-30s %-5s %5d %11d %9.2f %8d %9d %9d\n", "total", "", total.Text, total.Statements, total.Simulated, total.Sectors, total.Read, total.Written)
	fmt.Fprintf(text, "%d entries, %d runs of %d kernels; NVRTC took %.1f s for sm_90a", len(c.entries), len(c.subjects), len(c.kernels), compiled)
	t.Logf("\n%s", text)
	encoded, err := json.MarshalIndent(rows, "", " ")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "build"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "build", "corpus.json"), encoded, 0o644))
}
