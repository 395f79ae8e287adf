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

// flags reads the flags of a benchmark. The first mistake is kept in err. After a mistake, values have no meaning, but
// are safe to use.
type flags struct {
	*cli.Context
	err error
}

// wrong sets f.err to a usage error, unless f.err is already set.
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

// world returns the number of ranks of the benchmark.
func (f *flags) world() int {
	if n, launcher := mpi.Launched(); launcher != "" {
		return n
	}
	return f.Int("np")
}

// several returns the number of ranks of a benchmark that needs at least two ranks. Fewer ranks are a mistake.
func (f *flags) several() int {
	world := f.world()
	if world < 2 {
		f.wrong("%s on %d rank: expected at least 2 (-np 2, or more under a launcher)", f.Command.Name, world)
	}
	return world
}

// maxItems is the maximum number of items of a list. Each item is measured.
const maxItems = 2000

// list reads a list with commas between the items.
func list[T any](f *flags, flag string, parse func(string) (T, error)) (all []T) {
	if n := strings.Count(f.String(flag), ",") + 1; n > maxItems {
		f.wrong("--%s: %d items: expected at most %d", flag, n, maxItems)
		return nil
	}
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

// numbers reads a list of numbers in [least, most]. Error messages describe valid numbers with the text want.
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

// names reads a list of names. The argument all has the valid names. The text "all" means all of them.
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

// either reads a flag whose value must be one of the given words, and returns the index of the word.
func (f *flags) either(flag string, words ...string) int {
	at, last := slices.Index(words, f.String(flag)), len(words)-1
	if at < 0 {
		f.wrong("--%s %s: expected %s or %s", flag, f.String(flag), strings.Join(words[:last], ", "), words[last])
	}
	return at
}

// bytes reads a size > 0. Error messages show the example.
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

// sizeFlags returns the flags that flags.sizes reads. The arguments are the defaults of --begin and --end.
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
	if sizes = slices.Compact(sizes); len(sizes) > maxItems {
		f.wrong("--factor %v: %d sizes: expected at most %d", f.Float64("factor"), len(sizes), maxItems)
	}
	return sizes
}

// pairFlag returns the flag that flags.pair reads.
func pairFlag() cli.Flag {
	return &cli.StringFlag{Name: "pair", Usage: "the two `RANKS`, as 0,4", DefaultText: "the first and the last"}
}

// pair reads two different ranks. The default is the first and the last rank.
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

// checkLauncher checks that --launcher has a place for the number of ranks.
func (f *flags) checkLauncher() {
	if text := f.String("launcher"); text != "" && !strings.Contains(text, "{np}") {
		f.wrong("--launcher %q: expected {np} where the number of ranks stands, as 'mpirun -np {np}'", text)
	}
}

// launcherWords returns the words of a launcher's command for np ranks, or nil if command is empty.
func launcherWords(command string, np int) []string {
	return strings.Fields(strings.ReplaceAll(command, "{np}", strconv.Itoa(np)))
}
