package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// flags reads the flags of a benchmark. It keeps the first mistake. A value that it reads after a
// mistake has no meaning, but is safe to use.
type flags struct {
	*cli.Context
	err error
}

// wrong keeps a mistake as a usage error.
func (f *flags) wrong(format string, args ...any) {
	if f.err == nil {
		f.err = config.Usagef(format, args...)
	}
}

// bench returns the name of the benchmark in reports.
func (f *flags) bench() string {
	if f.Command.Name == "bench" {
		return "collectives"
	}
	return f.Command.Name
}

// world returns how many ranks there will be.
func (f *flags) world() int {
	if n, launcher := mpi.Launched(); launcher != "" {
		return n
	}
	return f.Int("np")
}

// several returns the number of ranks, as world does, for a benchmark that needs at least two ranks.
// Fewer ranks are a mistake.
func (f *flags) several() int {
	world := f.world()
	if world < 2 {
		f.wrong("%s on %d rank: expected at least 2 (-np 2, or more under a launcher)", f.Command.Name, world)
	}
	return world
}

// list reads a list whose items are separated by commas.
func list[T any](f *flags, flag string, parse func(string) (T, error)) (all []T) {
	for item := range strings.SplitSeq(f.String(flag), ",") {
		v, err := parse(strings.TrimSpace(item))
		if err != nil {
			f.wrong("--%s: %w", flag, err)
			return nil
		}
		all = append(all, v)
	}
	return all
}

// numbers reads a list of numbers in [least, most]. The argument want describes the valid numbers
// in the message to the user.
func (f *flags) numbers(flag string, least, most int, want string) []int {
	return list(f, flag, func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("%q: expected %s", text, want)
		}
		return n, nil
	})
}

// ranks reads a list of ranks of a world.
func (f *flags) ranks(flag string, world int) []int {
	return f.numbers(flag, 0, world-1, fmt.Sprintf("ranks from 0 to %d", world-1))
}

// names reads a list of names. The argument all has the valid names. The word "all" in place of a
// list stands for every name.
func (f *flags) names(flag string, all []string) []string {
	if f.String(flag) == "all" {
		return all
	}
	return list(f, flag, func(name string) (string, error) {
		if !slices.Contains(all, name) {
			return "", fmt.Errorf("%q: expected some of %s, or all", name, strings.Join(all, ", "))
		}
		return name, nil
	})
}

// name reads one name. The argument all has the valid names.
func (f *flags) name(flag string, all []string) string {
	names := f.names(flag, all)
	if len(names) != 1 {
		f.wrong("--%s %s: expected one of %s", flag, f.String(flag), strings.Join(all, ", "))
		return all[0]
	}
	return names[0]
}

// either reads a flag whose value must be one of words, and returns the index of this word.
func (f *flags) either(flag string, words ...string) int {
	at, last := slices.Index(words, f.String(flag)), len(words)-1
	if at < 0 {
		f.wrong("--%s %s: expected %s or %s", flag, f.String(flag), strings.Join(words[:last], ", "), words[last])
	}
	return at
}

// bytes reads a size that is not zero.
func (f *flags) bytes(flag, example string) int {
	n, err := parseBytes(f.String(flag))
	if err != nil || n < 1 {
		f.wrong("--%s %s: expected a size > 0, as %s", flag, f.String(flag), example)
	}
	return n
}

// parseBytes reads a size: 8, 64K, 64KiB, 1M, 1G; units are powers of 1024.
func parseBytes(s string) (int, error) {
	digits := strings.TrimRight(s, "KMGiB")
	shift, ok := map[string]int{"": 0, "B": 0, "K": 10, "KiB": 10, "M": 20, "MiB": 20, "G": 30,
		"GiB": 30}[s[len(digits):]]
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || n > 1<<40>>shift {
		return 0, fmt.Errorf("%q: expected a size as 8, 64K, 1M or 1GiB", s)
	}
	return n << shift, nil
}

// sizeFlags returns the flags that the method sizes reads. The arguments begin and end are defaults.
func sizeFlags(begin, end string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "begin", Aliases: []string{"b"}, Usage: "smallest `SIZE`", Value: begin},
		&cli.StringFlag{Name: "end", Aliases: []string{"e"}, Usage: "largest `SIZE`", Value: end},
		args.Float(cli.Float64Flag{Name: "factor", Aliases: []string{"f"},
			Usage: "factor from one size to the next", Value: 2}, 1.01, 1e6),
		&cli.StringFlag{Name: "sizes", Usage: "`LIST` of sizes instead of these three, as 8,64K,1M"},
	}
}

// sizes reads the sizes to measure.
func (f *flags) sizes() (sizes []int) {
	if f.String("sizes") != "" {
		return list(f, "sizes", parseBytes)
	}
	var ends [2]int
	for i, flag := range []string{"begin", "end"} {
		var err error
		if ends[i], err = parseBytes(f.String(flag)); err != nil {
			f.wrong("--%s: %w", flag, err)
		}
	}
	if ends[0] < 1 || ends[1] < ends[0] {
		f.wrong("--begin %s, --end %s: expected 1 <= begin <= end", f.String("begin"), f.String("end"))
		return nil
	}
	for s := float64(ends[0]); s <= float64(ends[1]); s *= f.Float64("factor") {
		sizes = append(sizes, int(s))
	}
	return slices.Compact(sizes)
}

// pairFlag is the flag that pair reads.
func pairFlag() cli.Flag {
	return &cli.StringFlag{Name: "pair", Usage: "the two `RANKS`, as 0,4", DefaultText: "the first and the last"}
}

// pair reads two different ranks.
func (f *flags) pair() [2]int {
	world := f.several()
	pair := []int{0, world - 1}
	if f.IsSet("pair") {
		pair = f.ranks("pair", world)
	}
	if len(pair) != 2 || pair[0] == pair[1] {
		f.wrong("--pair %s: expected two different ranks, as 0,1", f.String("pair"))
		return [2]int{}
	}
	return [2]int(pair)
}

// checkLauncher checks that --launcher can start any number of ranks.
func (f *flags) checkLauncher() {
	if text := f.String("launcher"); text != "" && !strings.Contains(text, "{np}") {
		f.wrong("--launcher %q: expected {np} where the number of ranks stands, as 'mpirun -np {np}'", text)
	}
}

// launcherWords returns the words of a launcher's command for np ranks. It returns none if command
// is empty.
func launcherWords(command string, np int) []string {
	return strings.Fields(strings.ReplaceAll(command, "{np}", strconv.Itoa(np)))
}
