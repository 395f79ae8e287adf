package cli

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/report"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/urfave/cli/v2"
)

func reportCommand(reg config.Registries, alone func(func(*cli.Context) error) func(*cli.Context) error) *cli.Command {
	return &cli.Command{
		Name: "report", Usage: "write a page about runs, which a browser opens from disk: curves, waits, films, settings",
		ArgsUsage: "RUN [RUN...]",
		Flags: []cli.Flag{&cli.StringFlag{Name: "out", Usage: "write the page to `FILE`.html",
			DefaultText: "report.html in the folder of the run"}},
		Action: alone(func(c *cli.Context) error { return runReport(c, reg) }),
	}
}

// runReport writes a page about the run that the arguments name, and says where it is.
func runReport(c *cli.Context, reg config.Registries) error {
	out := c.String("out")
	switch {
	case !c.Args().Present():
		return config.Usagef("report: expected the folder of a run")
	case out != "" && !strings.EqualFold(filepath.Ext(out), ".html"):
		return config.Usagef("--out %s: expected a file with the ending .html", out)
	}
	dir := c.Args().First()
	if !report.IsRun(dir) {
		return config.Usagef("report: %s: expected the folder of a run", dir)
	}
	if out == "" {
		out = filepath.Join(dir, "report.html")
	}
	times, err := trace.Read(dir)
	if err != nil {
		times = &trace.Trace{Problems: []string{err.Error()}}
	}
	run := report.Gather(dir, aboutRun(reg, dir), times)
	if err := durable.Write(out, func(w io.Writer) error { return report.WriteRun(w, run) }); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	fmt.Fprintln(c.App.Writer, out)
	return nil
}

// aboutRun returns the defaults and meanings of keys, and the lines of `rlinf status` for the run in dir.
func aboutRun(reg config.Registries, dir string) report.About {
	keys := map[string]config.Key{}
	for _, k := range config.Reference(reg) {
		keys[k.Name] = k
	}
	var next bytes.Buffer
	if s, err := results.ReadStanding(dir); err == nil {
		if err := writeRun(&next, reg, s); err != nil {
			next.Reset() // the configuration is damaged, and the page says so
		}
	}
	return report.About{
		Defaults: config.Default().Resolved(),
		Key: func(name string) (meaning, from string) {
			k := keys[name]
			if k.Doc == "" {
				k.Doc = keys[k.Like].Doc
			}
			return k.Doc, k.From
		},
		Next: next.String(),
	}
}
