package experience

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/rlinf/rlinf/reward/frames"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/urfave/cli/v2"
)

// Frames returns the command rlinf data frames.
func Frames() *cli.Command {
	return &cli.Command{Name: "frames",
		Usage: "make the files from which a classifier of images learns what success is, from demonstrations and " +
			"recordings of policies",
		ArgsUsage: "FILE...", Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Value: "frames",
				Usage: "the `FOLDER` of train.safetensors and val.safetensors"},
			args.Force(),
			&cli.StringFlag{Name: "camera", Usage: "`NAME` of the observation with the images, if there are several"},
			args.Float(cli.Float64Flag{Name: "reward", Usage: "the frame after a step with a reward of at least `R` " +
				"shows success", DefaultText: "the last frame of an episode that succeeded and terminated"},
				-math.MaxFloat64, math.MaxFloat64),
			args.Float(cli.Float64Flag{Name: "validation", Value: 0.2, Usage: "`SHARE` of the episodes for validation"},
				0, 1),
			args.Int(cli.IntFlag{Name: "seed", Usage: "seed `N` of the choice of episodes"}, 0, args.MaxCount),
		}, Action: args.Alone(runFrames)}
}

// isFrames reports whether rlinf data frames has written the file that begins with head.
func isFrames(head []byte) bool {
	return len(head) > 8 && args.Begins(`\{"__metadata__":\{"frames":"`)(head[8:])
}

func runFrames(c *cli.Context) error {
	if c.Args().Len() == 0 {
		return config.Usagef("data frames: no file: expected demonstrations or recordings")
	}
	source := frames.SuccessRule{Camera: c.String("camera")}
	if c.IsSet("reward") {
		r := c.Float64("reward")
		source.Reward = &r
	}
	var all []frames.LabelledEpisode
	var shape []int
	for _, path := range c.Args().Slice() {
		episodes, size, err := source.Read(path)
		if err != nil {
			return config.UsageError{Err: err}
		}
		if shape != nil && !slices.Equal(shape, size) {
			return config.Usagef("%s: images %v: expected %v, as in the files before it", path, size, shape)
		}
		all, shape = append(all, episodes...), size
	}
	train, valid, err := frames.Split(all, shape, c.Float64("validation"), uint64(c.Int("seed")))
	if err != nil {
		return config.UsageError{Err: err}
	}
	out := filepath.Clean(c.String("out"))
	if err := os.MkdirAll(out, 0o777); err != nil {
		return config.Usagef("--out %s: %w", out, err)
	}
	files := []struct {
		path string
		set  *frames.Set
	}{{filepath.Join(out, "train.safetensors"), train}, {filepath.Join(out, "val.safetensors"), valid}}
	for _, f := range files {
		if err := args.CheckOut(c, "out", f.path, isFrames); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := f.set.Write(f.path, map[string]string{"frames": fmt.Sprint(f.set.Len())}); err != nil {
			return err
		}
		fmt.Fprintf(c.App.Writer, "%s: %d frames of %v, %d of success\n", f.path, f.set.Len(), shape, f.set.Successes())
	}
	return nil
}
