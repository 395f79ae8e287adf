package collectives

import (
	"math"

	"github.com/rlinf/rlinf/spmd"
)

// A Shape holds the parameters of an operation's cost.
type Shape struct {
	Kind    spmd.Kind
	Members int // P
	Nodes   int // N: the number of nodes with members
	Bytes   int // S: bytes of Data, at the root or at every member
}

// A Cost is the length of an operation's critical path: Rounds successive messages or barriers, and
// Bytes bytes. The operation takes α·Rounds + β·Bytes.
type Cost struct {
	Rounds, Bytes float64
	// formulas of Rounds and Bytes for n members on N nodes and S bytes; BytesFormula is the factor
	// of S
	RoundsFormula, BytesFormula string
}

// CostOf returns the documented cost of the named algorithm. For the library's algorithm, which is
// unknown, it returns a lower bound of both terms. Auto has no cost; see Group.Choice.
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

// cost makes a Cost of factor·S bytes.
func (s Shape) cost(rounds float64, roundsFormula string, factor float64, bytesFormula string) Cost {
	return Cost{rounds, factor * float64(s.Bytes), roundsFormula, bytesFormula}
}

// others returns n-1; part returns (n-1)/n.
func (s Shape) others() float64 { return float64(s.Members - 1) }
func (s Shape) part() float64   { return s.others() / float64(s.Members) }

// ceilLog returns ⌈log₂n⌉.
func ceilLog(n int) float64 { return math.Ceil(math.Log2(float64(n))) }

// sharedCost is the cost in shared memory. Rounds are barriers, and Bytes are memory traffic.
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

// orderedCost is the cost of "ordered". One member reduces a short vector. Of a long vector each
// member reduces a shard.
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

// hierarchicalCost counts only the communication between nodes.
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

// linearCost is the cost of sending every block in its own message.
func linearCost(s Shape) Cost {
	switch s.Kind {
	case spmd.SendReceive:
		return s.cost(1, "1", 1, "1")
	case spmd.AllReduce:
		return s.cost(2*s.others(), "2(n-1)", 2*s.part(), "2(n-1)/n")
	}
	return s.cost(s.others(), "n-1", s.part(), "(n-1)/n")
}

// foldRounds returns the rounds of recursive doubling; if n is not a power of two, the fold adds
// two.
func foldRounds(n int) float64 {
	rounds := math.Floor(math.Log2(float64(n)))
	if n&(n-1) != 0 {
		rounds += 2
	}
	return rounds
}

// foldedCost is the cost of algorithms that fold the members if n is not a power of two.
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
	m := math.Exp2(rounds - extra) // members after the fold
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

// leastCost is a lower bound for every algorithm: the rounds to inform all members, and the bytes
// that a member must send or receive.
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
