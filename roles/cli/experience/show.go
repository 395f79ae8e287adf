// Package experience has the commands for demonstrations: rlinf data show.
package experience

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied/dataset"
	"github.com/urfave/cli/v2"
)

// Show returns the command rlinf data show.
func Show() *cli.Command {
	return &cli.Command{Name: "show", Usage: "describe demonstrations, in a file or a folder of LeRobot: episodes, " +
		"returns, tensors",
		ArgsUsage: "PATH", Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "write a JSON object"}},
		Action: args.Alone(func(c *cli.Context) error {
			if c.Args().Len() != 1 {
				return config.Usagef("data show: %d arguments: expected one file or folder", c.Args().Len())
			}
			file := filepath.Clean(c.Args().First())
			about, err := aboutPath(file)
			if err != nil {
				return config.UsageError{Err: err}
			}
			if c.Bool("json") {
				return json.NewEncoder(c.App.Writer).Encode(about)
			}
			return about.write(c.App.Writer, file)
		})}
}

// A demosAbout describes a file of demonstrations.
type demosAbout struct {
	Env          string            `json:"env"`
	Episodes     int               `json:"episodes"`
	Transitions  int               `json:"transitions"`
	Lengths      [2]int            `json:"lengths"` // the shortest and the longest episode
	Return       float64           `json:"return"`  // mean
	Returns      [2]float64        `json:"returns"` // the smallest and the largest return
	Success      *float64          `json:"success,omitempty"`
	SuccessRate  *float64          `json:"success_rate,omitempty"` // of all played episodes
	Instructions map[string]int    `json:"instructions,omitempty"` // number of episodes of each
	Tensors      map[string]string `json:"tensors"`                // type and shape in one transition
	FPS          float64           `json:"fps,omitempty"`          // of a folder, as Robot
	Robot        string            `json:"robot,omitempty"`
	order        []string          // names of the tensors, in the order of the file
}

// aboutPath describes the file or folder of LeRobot at path.
func aboutPath(path string) (*demosAbout, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		header, folder, err := dataset.Describe(path)
		if err != nil {
			return nil, err
		}
		a := aboutDemos(&header)
		a.FPS, a.Robot = folder.FPS, folder.RobotType
		return a, nil
	}
	d, err := algo.OpenDemos(path)
	if err != nil {
		return nil, err
	}
	return aboutDemos(&d.DemoHeader), d.Close()
}

func aboutDemos(d *algo.DemoHeader) *demosAbout {
	first := d.Episodes[0]
	a := &demosAbout{Env: d.Env, Episodes: len(d.Episodes), Transitions: d.Transitions(),
		Instructions: map[string]int{}, Lengths: [2]int{first.Len, first.Len},
		Returns: [2]float64{first.Return, first.Return}, Tensors: map[string]string{}}
	succeeded := 0.0
	for _, e := range d.Episodes {
		a.Lengths = [2]int{min(a.Lengths[0], e.Len), max(a.Lengths[1], e.Len)}
		a.Return += e.Return / float64(len(d.Episodes))
		a.Returns = [2]float64{min(a.Returns[0], e.Return), max(a.Returns[1], e.Return)}
		if e.Success {
			succeeded++
		}
		if e.Instruction != "" {
			a.Instructions[e.Instruction]++
		}
	}
	if d.HasSuccess {
		share := succeeded / float64(len(d.Episodes))
		a.Success, a.SuccessRate = &share, &d.SuccessRate
	}
	for _, f := range d.Fields {
		a.order, a.Tensors[f.Name] = append(a.order, f.Name), fmt.Sprintf("%v%v", f.DType, f.Shape)
	}
	return a
}

// mostInstructions is the maximum number of instructions that write shows.
const mostInstructions = 10

func (a *demosAbout) write(out io.Writer, file string) error {
	fmt.Fprintf(out, "%s: %d episodes of %s, %d transitions\n", printable.Line(file), a.Episodes,
		cmp.Or(printable.Line(a.Env), "an environment without a name"), a.Transitions)
	fmt.Fprintf(out, "  length       %d to %d\n", a.Lengths[0], a.Lengths[1])
	fmt.Fprintf(out, "  return       %.4g on average, %.4g to %.4g\n", a.Return, a.Returns[0], a.Returns[1])
	if a.Success != nil {
		fmt.Fprintf(out, "  success      %.4g %% (%.0f of %d); %.4g %% of all that were played\n", 100**a.Success,
			*a.Success*float64(a.Episodes), a.Episodes, 100**a.SuccessRate)
	}
	if a.FPS > 0 {
		fmt.Fprintf(out, "  folder       %g steps per second, robot %s\n", a.FPS,
			cmp.Or(printable.Line(a.Robot), "without a name"))
	}
	texts := slices.SortedFunc(maps.Keys(a.Instructions), func(x, y string) int {
		return cmp.Or(a.Instructions[y]-a.Instructions[x], cmp.Compare(x, y))
	})
	for i, text := range texts {
		if i == mostInstructions {
			fmt.Fprintf(out, "  …            and %d more instructions\n", len(texts)-i)
			break
		}
		fmt.Fprintf(out, "  instruction  %s: %d episodes\n", printable.Line(text), a.Instructions[text])
	}
	for _, name := range a.order {
		if _, err := fmt.Fprintf(out, "  tensor       %s %s\n", printable.Line(name), a.Tensors[name]); err != nil {
			return err
		}
	}
	return nil
}
