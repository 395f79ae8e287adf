package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/urfave/cli/v2"
)

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

// parseList reads a list whose items commas separate.
func parseList[T any](flag, text string, parse func(string) (T, error)) ([]T, error) {
	var list []T
	for _, item := range strings.Split(text, ",") {
		v, err := parse(strings.TrimSpace(item))
		if err != nil {
			return nil, config.UsageError{Err: fmt.Errorf("--%s: %w", flag, err)}
		}
		list = append(list, v)
	}
	return list, nil
}

// sizesOf reads the flags that say which sizes to measure.
func sizesOf(c *cli.Context) ([]int, error) {
	if text := c.String("sizes"); text != "" {
		return parseList("sizes", text, parseBytes)
	}
	lo, err := parseBytes(c.String("begin"))
	if err != nil {
		return nil, config.UsageError{Err: fmt.Errorf("--begin: %w", err)}
	}
	hi, err := parseBytes(c.String("end"))
	if err != nil {
		return nil, config.UsageError{Err: fmt.Errorf("--end: %w", err)}
	}
	factor := c.Float64("factor")
	if lo < 1 || hi < lo {
		return nil, config.UsageError{Err: fmt.Errorf("--begin %s, --end %s: expected 1 <= begin <= end",
			c.String("begin"),
			c.String("end"))}
	}
	var sizes []int
	for s := float64(lo); s <= float64(hi); s *= factor {
		sizes = append(sizes, int(s))
	}
	return slices.Compact(sizes), nil
}

// sizeFlags are those that sizesOf reads.
func sizeFlags(begin, end string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "begin", Aliases: []string{"b"}, Usage: "smallest `SIZE`", Value: begin},
		&cli.StringFlag{Name: "end", Aliases: []string{"e"}, Usage: "largest `SIZE`", Value: end},
		args.Float(cli.Float64Flag{Name: "factor", Aliases: []string{"f"},
			Usage: "factor from one size to the next", Value: 2}, 1.01, 1e6),
		&cli.StringFlag{Name: "sizes", Usage: "`LIST` of sizes instead of these three, as 8,64K,1M"},
	}
}
