package experience

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/lerobot"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied/dataset"
	"github.com/urfave/cli/v2"
)

// Convert returns the command rlinf data convert.
func Convert() *cli.Command {
	return &cli.Command{Name: "convert",
		Usage: "turn a folder of LeRobot or Minari into a file of demonstrations, or such a file into a folder of " +
			"LeRobot",
		ArgsUsage: "SOURCE", Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "the file or the folder to write, `PATH`"},
			args.Force(),
			&cli.StringFlag{Name: "lerobot", Value: lerobot.V30, Usage: "`VERSION` of the folder: v3.0 or v2.1"},
			args.Float(cli.Float64Flag{Name: "fps", Value: 10, Usage: "steps of an episode per second, for the folder"},
				1e-3, 1e6),
			&cli.StringFlag{Name: "robot", Usage: "`NAME` of the robot, for the folder; default: the environment's"},
			&cli.StringSliceFlag{Name: "name",
				Usage: "`TENSOR=COLUMN`: where the folder has a tensor; may be given several times"},
		}, Action: args.Alone(runConvert)}
}

func runConvert(c *cli.Context) error {
	if c.Args().Len() != 1 || c.String("out") == "" {
		return config.Usagef("data convert: %d arguments: expected one file or folder, and --out", c.Args().Len())
	}
	source, out := filepath.Clean(c.Args().First()), filepath.Clean(c.String("out"))
	names := map[string]string{}
	for _, pair := range c.StringSlice("name") {
		tensor, column, ok := strings.Cut(pair, "=")
		if !ok || tensor == "" || column == "" {
			return config.Usagef("--name %s: expected TENSOR=COLUMN, as observation.states=observation.state", pair)
		}
		names[tensor] = column
	}
	if info, err := os.Stat(source); err != nil {
		return config.UsageError{Err: err}
	} else if info.IsDir() {
		for _, flag := range []string{"lerobot", "fps", "robot"} {
			if c.IsSet(flag) {
				return config.Usagef("--%s: expected none, because %s is a folder", flag, source)
			}
		}
		if err := args.CheckOut(c, "out", out, algo.IsDemos); err != nil {
			return err
		}
		if err := dataset.Import(source, out, names); err != nil {
			return err
		}
		return sayConverted(c, out, out)
	}
	version := c.String("lerobot")
	if version != lerobot.V21 && version != lerobot.V30 {
		return config.Usagef("--lerobot %s: expected %s or %s", version, lerobot.V30, lerobot.V21)
	}
	if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
		return config.Usagef("--out %s: expected a folder that does not exist", out)
	}
	e := dataset.Export{Version: version, FPS: c.Float64("fps"), Robot: c.String("robot"), Names: names}
	if err := e.Write(source, out); err != nil {
		return err
	}
	return sayConverted(c, out, source)
}

// sayConverted says how much was written to out. file has the demonstrations, before or after their conversion.
func sayConverted(c *cli.Context, out, file string) error {
	d, err := algo.OpenDemos(file)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s: %d episodes, %d transitions\n", out, len(d.Episodes), d.Transitions())
	return errors.Join(err, d.Close())
}
