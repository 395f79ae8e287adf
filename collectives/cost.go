package collectives

import (
	"math"

	"github.com/rlinf/rlinf/spmd"
)

// A Shape is what the cost of an operation depends on.
type Shape struct {
	Kind    spmd.Kind
	Members int // P
	Nodes   int // N, that the members are on
	Bytes   int // S: all of Data, at the root or at every member
}

// A Cost is what follows one another in an operation: Rounds messages or meetings, and Bytes bytes.
// The operation takes α·Rounds + β·Bytes.
type Cost struct {
	Rounds, Bytes float64
	// Formulas of the two, for n members on N nodes and S bytes. Bytes leaves S out.
	RoundsFormula, BytesFormula string
}

// CostOf returns the cost of an operation by the named algorithm, as the algorithm's file gives it.
// The algorithm of a library is not known: its cost is the least there is for either term. Auto has
// no cost of its own; see Group.Choice.
func CostOf(algorithm string, s Shape) Cost {
	switch algorithm {
	case "shared":
		return sharedCost(s)
	case "ordered":
		return orderedCost(s)
	case "hierarchical":
		return hierarchicalCost(s)
	case "ring", "direct":
		return linearCost(s)
	case "rabenseifner", "doubling":
		return foldedCost(algorithm, s)
	case "tree":
		return treeCost(s)
	}
	return leastCost(s)
}

// cost fills in a Cost whose bytes are factor·S.
func (s Shape) cost(rounds float64, roundsFormula string, factor float64, bytesFormula string) Cost {
	return Cost{rounds, factor * float64(s.Bytes), roundsFormula, bytesFormula}
}

// others returns n-1, and part (n-1)/n.
func (s Shape) others() float64 { return float64(s.Members - 1) }
func (s Shape) part() float64   { return s.others() / float64(s.Members) }

// ceilLog returns ⌈log₂n⌉.
func ceilLog(n int) float64 { return math.Ceil(math.Log2(float64(n))) }

// sharedCost counts meetings, and bytes that memory moves.
func sharedCost(s Shape) Cost {
	n := float64(s.Members)
	switch s.Kind {
	case spmd.Barrier:
		return s.cost(1, "1", 0, "0")
	case spmd.AllReduce:
		if s.Bytes <= short {
			return s.cost(1, "1 to 64KiB, then 2", 2*n, "2n to 64KiB, then 2")
		}
		return s.cost(2, "1 to 64KiB, then 2", 2, "2n to 64KiB, then 2")
	case spmd.Reduce:
		if s.Bytes <= short {
			return s.cost(1, "1 to 64KiB, then 2", n+1, "n+1 to 64KiB, then 1+1/n")
		}
		return s.cost(2, "1 to 64KiB, then 2", 1+1/n, "n+1 to 64KiB, then 1+1/n")
	case spmd.ReduceScatter:
		return s.cost(2, "2", 1+1/n, "1+1/n")
	case spmd.Broadcast:
		if s.Bytes <= inline {
			return s.cost(1, "1 to 4KiB, then 2", 2, "2")
		}
		return s.cost(2, "1 to 4KiB, then 2", 2, "2")
	}
	return s.cost(2, "2", 2, "2")
}

// orderedCost: of a short vector one member reduces all, of a long one each member a shard.
func orderedCost(s Shape) Cost {
	alone := s.Bytes*s.Members <= maxSingleOwner
	switch {
	case s.Kind == spmd.ReduceScatter:
		return s.cost(s.others(), "n-1", s.part(), "(n-1)/n")
	case alone && s.Kind == spmd.Reduce:
		return s.cost(1, "1 to 512KiB/n, then 2(n-1)", s.others(), "n-1 to 512KiB/n, then 2(n-1)/n")
	case alone:
		return s.cost(2, "2 to 512KiB/n, then 2(n-1)", 2*s.others(), "2(n-1) to 512KiB/n, then 2(n-1)/n")
	case s.Kind == spmd.Reduce:
		return s.cost(2*s.others(), "1 to 512KiB/n, then 2(n-1)", 2*s.part(), "n-1 to 512KiB/n, then 2(n-1)/n")
	}
	return s.cost(2*s.others(), "2 to 512KiB/n, then 2(n-1)", 2*s.part(), "2(n-1) to 512KiB/n, then 2(n-1)/n")
}

// hierarchicalCost counts what crosses between nodes.
func hierarchicalCost(s Shape) Cost {
	log, between := ceilLog(s.Nodes), float64(s.Nodes-1)
	switch {
	case s.Kind == spmd.Barrier:
		return s.cost(log, "log2 N", 0, "0")
	case s.Kind == spmd.AllReduce && s.Bytes >= long && s.Members%s.Nodes == 0:
		return s.cost(2*between, "log2 N to 32KiB, then 2(N-1)", 2*between/float64(s.Members),
			"log2 N to 32KiB, then 2(N-1)/n")
	case s.Kind == spmd.AllReduce:
		rounds := foldRounds(s.Nodes)
		return s.cost(rounds, "log2 N to 32KiB, then 2(N-1)", rounds, "log2 N to 32KiB, then 2(N-1)/n")
	}
	return s.cost(log, "log2 N", log, "log2 N")
}

// linearCost: every block travels by itself.
func linearCost(s Shape) Cost {
	switch s.Kind {
	case spmd.SendReceive:
		return s.cost(1, "1", 1, "1")
	case spmd.AllReduce:
		return s.cost(2*s.others(), "2(n-1)", 2*s.part(), "2(n-1)/n")
	}
	return s.cost(s.others(), "n-1", s.part(), "(n-1)/n")
}

// foldRounds returns the rounds of recursive doubling: two more where n is not a power of two.
func foldRounds(n int) float64 {
	rounds := math.Floor(math.Log2(float64(n)))
	if n&(n-1) != 0 {
		rounds += 2
	}
	return rounds
}

// foldedCost: members pair up first where n is not a power of two.
func foldedCost(algorithm string, s Shape) Cost {
	if s.Kind == spmd.Barrier {
		return s.cost(ceilLog(s.Members), "log2 n", 0, "0")
	}
	rounds, extra := foldRounds(s.Members), 0.0
	if s.Members&(s.Members-1) != 0 {
		extra = 2
	}
	if algorithm == "doubling" {
		return s.cost(rounds, "log2 n (+2)", rounds, "log2 n (+2)")
	}
	m := math.Exp2(rounds - extra) // the members of the fold
	return s.cost(2*(rounds-extra)+extra, "2 log2 n (+2)", 2*(m-1)/m+extra, "2(n-1)/n (+2)")
}

func treeCost(s Shape) Cost {
	log := ceilLog(s.Members)
	switch s.Kind {
	case spmd.Barrier:
		return s.cost(log, "log2 n", 0, "0")
	case spmd.AllReduce:
		return s.cost(2*log, "2 log2 n", 2*log, "2 log2 n")
	}
	return s.cost(log, "log2 n", log, "log2 n")
}

// leastCost is a bound for any algorithm: so many rounds tell everyone something, and so many bytes
// must pass through a member.
func leastCost(s Shape) Cost {
	log := ceilLog(s.Members)
	switch s.Kind {
	case spmd.Barrier:
		return s.cost(log, "log2 n", 0, "0")
	case spmd.SendReceive:
		return s.cost(1, "1", 1, "1")
	case spmd.Broadcast, spmd.Reduce:
		return s.cost(log, "log2 n", 1, "1")
	case spmd.AllReduce:
		return s.cost(log, "log2 n", 2*s.part(), "2(n-1)/n")
	}
	return s.cost(log, "log2 n", s.part(), "(n-1)/n")
}
