package ptx

import "strings"

// An opcode is what an instruction does. Names that do the same on registers of 64 bits share an opcode: a value of 32
// bits has zeros in its upper half.
type opcode uint8

const (
	branch opcode = iota
	barrier
	exit
	load
	store
	move
	truncate // to 32 bits
	extend   // the sign of 32 bits to 64

	add32
	add64
	sub32
	sub64
	neg64
	mul32
	mad32
	mul64
	mulWide // signed
	div32
	div64
	divU
	remU
	rem64
	min32
	max32
	min64
	shl32
	shl64
	shr
	shrS32
	and
	or
	xor
	invert // a predicate
	choose
	compare32
	compare64
	compareU
	compareF

	addF
	subF
	mulF
	divF
	fmaF
	sqrtF
	recipF
	negF
	absF
	intToF
	floatToD
	intToD
	dToFloat
	addD
	mulD
	divD
	sqrtD
	recipD
)

// opcodes are the opcodes of instructions without a family. It is never written.
var opcodes = map[string]opcode{
	"bra": branch, "bra.uni": branch, "bar.sync": barrier, "ret": exit,
	"ld.param.u32": move, "ld.param.u64": move, "ld.param.f32": move, "ld.param.f64": move,
	"ld.param.s32": extend,
	"cvt.u64.u32":  move, "cvt.u32.u64": truncate, "cvt.s64.s32": extend,
	"add.s32": add32, "add.s64": add64, "sub.s32": sub32, "sub.s64": sub64, "mul.lo.s32": mul32, "mul.lo.s64": mul64,
	"neg.s64":    neg64,
	"mad.lo.s32": mad32, "max.s32": max32, "mul.wide.s32": mulWide, "mul.wide.u32": mul64,
	"div.s32": div32, "div.s64": div64, "div.u32": divU,
	"div.u64": divU, "rem.u32": remU, "rem.s64": rem64, "min.s32": min32, "min.s64": min64,
	"shl.b32": shl32, "shl.b64": shl64, "shr.u32": shr, "shr.u64": shr, "shr.s32": shrS32,
	"and.b32": and, "and.b64": and, "and.pred": and, "or.b32": or, "or.b64": or, "or.pred": or,
	"xor.b32": xor, "xor.pred": xor,
	"not.pred":   invert,
	"add.rn.f32": addF, "sub.rn.f32": subF, "mul.rn.f32": mulF, "div.rn.f32": divF, "fma.rn.f32": fmaF,
	"sqrt.rn.f32": sqrtF, "rcp.rn.f32": recipF, "neg.f32": negF, "abs.f32": absF,
	"cvt.rn.f32.s32": intToF, "cvt.f64.f32": floatToD,
	"cvt.rn.f64.s32": intToD, "cvt.rn.f32.f64": dToFloat, "add.rn.f64": addD, "mul.rn.f64": mulD, "div.rn.f64": divD,
	"sqrt.rn.f64": sqrtD, "rcp.rn.f64": recipD,
}

// A relation is what a comparison asks.
type relation uint8

const (
	equal relation = iota
	unequal
	less
	lessEqual
	greater
	greaterEqual
	unordered // one of two floats is NaN
	lessEqualOrUnordered
)

var relations = map[string]relation{"eq": equal, "ne": unequal, "lt": less, "le": lessEqual, "gt": greater,
	"ge": greaterEqual}

// floatRelations have no "ne", which is false for NaN; clang does not use it.
var floatRelations = map[string]relation{"eq": equal, "neu": unequal, "lt": less, "le": lessEqual, "gt": greater,
	"ge": greaterEqual, "nan": unordered, "leu": lessEqualOrUnordered}

// identify sets what follows from the name of an instruction. It reports whether the name is known.
func (in *instruction) identify(name string) bool {
	if op, ok := opcodes[name]; ok {
		in.op = op
		return true
	}
	parts := strings.Split(name, ".")
	kind := parts[len(parts)-1]
	switch family := parts[0]; {
	case family == "mov" && len(parts) == 2:
		in.op = move
		return true
	case family == "selp" && len(parts) == 2:
		in.op = choose
		return true
	case family == "setp" && len(parts) == 3:
		known := relations
		switch kind {
		case "s32":
			in.op = compare32
		case "s64", "b64":
			in.op = compare64
		case "u32", "u64", "b32":
			in.op = compareU
		case "f32":
			in.op, known = compareF, floatRelations
		default:
			return false
		}
		var ok bool
		in.relation, ok = known[parts[1]]
		return ok
	case (family == "ld" || family == "st") && len(parts) > 2:
		in.op, in.count = load, 1
		if family == "st" {
			in.op = store
		}
		if len(parts) == 4 {
			in.count = map[string]int{"v2": 2, "v4": 4}[parts[2]]
		}
		in.size = map[string]int{"f32": 4, "u32": 4, "b32": 4, "s32": 4, "f64": 8, "u64": 8, "b64": 8}[kind]
		in.shared, in.signed = parts[1] == "shared", kind == "s32"
		return in.count*in.size > 0 && (in.shared || parts[1] == "global")
	}
	return false
}
