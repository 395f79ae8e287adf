package collectives

import (
	"math"

	"github.com/rlinf/rlinf/spmd"
)

// A Shape holds the parameters of an operation's cost.
type Shape struct {
	Kind    spmd.CollectiveKind
	Members int // P
	Nodes   int // N: the number of nodes with members
	Bytes   int // S: bytes of the root's Data, or of every member's Data
}

// A Cost is the length of an operation's critical path. Rounds is the number of successive messages or barriers on the
// path, and Bytes is the number of bytes. The operation takes α·Rounds + β·Bytes.
type Cost struct {
	Rounds, Bytes float64
	// formulas of Rounds and of Bytes/S for n members on N nodes and S bytes
	RoundsFormula, BytesFormula string
}

// CostOf returns the documented cost of the named algorithm. For "mpi", whose algorithm is unknown, it returns a lower
// bound. For Auto, pass the name that Group.Choice returns.
func CostOf(algorithm string, s Shape) Cost {
	switch algorithm {
	case "shared":
		return sharedCost(s)
	case "hierarchical":
		return hierarchicalCost(s)
	case "ring", "direct", "ordered":
		return linearCost(s)
	case "rabenseifner", "doubling":
		return halvingCost(algorithm, s)
	case "tree":
		return treeCost(s)
	}
	return leastCost(s)
}

// cost returns a Cost with factor·S bytes.
func (s Shape) cost(rounds float64, roundsFormula string, factor float64, bytesFormula string) Cost {
	return Cost{rounds, factor * float64(s.Bytes), roundsFormula, bytesFormula}
}

// others returns n-1, and part returns (n-1)/n. n is the number of members.
func (s Shape) others() float64 { return float64(s.Members - 1) }
func (s Shape) part() float64   { return s.others() / float64(s.Members) }

// ceilLog returns ⌈log₂n⌉.
func ceilLog(n int) float64 { return math.Ceil(math.Log2(float64(n))) }

// sharedCost returns the cost of "shared". Rounds are barriers, and Bytes are memory traffic.
func sharedCost(s Shape) Cost {
	n := float64(s.Members)
	switch s.Kind {
	case spmd.Barrier:
		return s.cost(1, "1", 0, "0")
	case spmd.AllReduce:
		if s.Bytes <= chunk {
			return s.cost(1, "1 to 64KiB, then 2", 2*n, "2n to 64KiB, then 2")
		}
		return s.cost(2, "1 to 64KiB, then 2", 2, "2n to 64KiB, then 2")
	case spmd.Reduce:
		if s.Bytes <= chunk {
			return s.cost(1, "1 to 64KiB, then 2", n+1, "n+1 to 64KiB, then 1+1/n")
		}
		return s.cost(2, "1 to 64KiB, then 2", 1+1/n, "n+1 to 64KiB, then 1+1/n")
	case spmd.ReduceScatter:
		return s.cost(2, "2", 1+1/n, "1+1/n")
	case spmd.Broadcast:
		if s.Bytes <= maxInline {
			return s.cost(1, "1 to 4KiB, then 2", 2, "2")
		}
		return s.cost(2, "1 to 4KiB, then 2", 2, "2")
	}
	return s.cost(2, "2", 2, "2")
}

// hierarchicalCost returns the cost of "hierarchical". It counts only the communication between nodes.
func hierarchicalCost(s Shape) Cost {
	log := ceilLog(s.Nodes)
	between := [2]string{"1/2 log2 N to 32KiB, then 2(log2 N - 1)", "3/2 log2 N to 32KiB, then 2(N-1)/n"}
	switch {
	case s.Kind == spmd.Barrier:
		return s.cost(log, "log2 N", 0, "0")
	case s.Kind == spmd.AllReduce && s.Bytes >= minLong && s.Members%s.Nodes == 0:
		c := halvingCost("rabenseifner", Shape{spmd.AllReduce, s.Nodes, s.Nodes, s.Bytes})
		share := float64(s.Nodes) / float64(s.Members)
		return Cost{c.Rounds, c.Bytes * share, between[0], between[1]}
	case s.Kind == spmd.AllReduce:
		c := halvingCost("doubling", Shape{spmd.AllReduce, s.Nodes, s.Nodes, s.Bytes})
		return Cost{c.Rounds, c.Bytes, between[0], between[1]}
	}
	return s.cost(log, "log2 N", log, "log2 N")
}

// linearCost returns the cost of an algorithm that sends every block in its own message.
func linearCost(s Shape) Cost {
	switch s.Kind {
	case spmd.SendReceive:
		return s.cost(1, "1", 1, "1")
	case spmd.AllReduce:
		return s.cost(2*s.others(), "2(n-1)", 2*s.part(), "2(n-1)/n")
	}
	return s.cost(s.others(), "n-1", s.part(), "(n-1)/n")
}

// halvingCost returns the cost of recursive doubling or halving. If n is not a power of two, members outside of the
// first subtree (see halving) get their result in one more message. An allreduce by halving needs no additional
// message, but sends 2S bytes in that case, instead of 2(n-1)/n·S.
func halvingCost(algorithm string, s Shape) Cost {
	levels, last := math.Floor(math.Log2(float64(s.Members))), 0.0
	if s.Members&(s.Members-1) != 0 {
		last = 1
	}
	part := 1 - (1-last)*math.Exp2(-levels)
	rounds := max(levels-1, min(levels, 1)) // the first round merges groups of four
	switch {
	case s.Kind == spmd.Barrier:
		return s.cost(ceilLog(s.Members), "log2 n", 0, "0")
	case algorithm == "doubling":
		fours, pair := math.Floor(levels/2), math.Mod(levels, 2)
		return s.cost(fours+pair+last, "1/2 log2 n (+1)", 3*fours+pair+last, "3/2 log2 n (+1)")
	case s.Kind == spmd.ReduceScatter:
		return s.cost(rounds+last, "log2 n - 1 (+1)", part+last/float64(s.Members), "(n-1)/n or 1+1/n")
	}
	return s.cost(2*rounds, "2(log2 n - 1)", 2*part, "2(n-1)/n or 2")
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

// leastCost returns a lower bound for barriers, broadcasts and allreduces: the rounds that reach all members, and the
// bytes that a member must send or receive.
func leastCost(s Shape) Cost {
	log := ceilLog(s.Members)
	switch s.Kind {
	case spmd.Barrier:
		return s.cost(log, "log2 n", 0, "0")
	case spmd.AllReduce:
		return s.cost(log, "log2 n", 2*s.part(), "2(n-1)/n")
	}
	return s.cost(log, "log2 n", 1, "1")
}
