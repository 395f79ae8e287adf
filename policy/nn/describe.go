package nn

import (
	"strings"

	"github.com/rlinf/rlinf/policy/graph"
)

// ops are the operations of the kinds of layers.
var ops = map[layerKind]graph.Op{
	kindInput: graph.Input, kindView: graph.View, kindBatchNorm2D: graph.BatchNorm2D, kindGroupNorm: graph.GroupNorm,
	kindDropout: graph.Dropout, kindMean: graph.MeanPool, kindSpatial: graph.Spatial,
	kindEmbed: graph.Embedding, kindSentence: graph.Sentence,
	kindDense: graph.Dense, kindNorm: graph.LayerNorm, kindBatchNorm: graph.BatchNorm, kindConv: graph.Conv,
	kindPool: graph.MaxPool, kindKeypoint: graph.Softmax2D, kindCoordinates: graph.Coordinates, kindFiLM: graph.FiLM,
	kindModulated: graph.FiLM, kindPoint: graph.Point, kindGRU: graph.GRU, kindLSTM: graph.LSTM,
	kindSequence: graph.Sequence, kindResidual: graph.Residual, kindConcat: graph.Concat,
}

var activations = map[Activation]graph.Op{Tanh: graph.Tanh, ReLU: graph.ReLU}

// constants returns the constants that the layer itself has.
func (l Layer) constants() []graph.Const {
	switch l.kind {
	case kindConv, kindPool:
		return []graph.Const{{Name: "size", Value: l.size}, {Name: "stride", Value: l.stride},
			{Name: "pad", Value: l.pad}}
	case kindKeypoint, kindPoint:
		return []graph.Const{{Name: "deviation", Value: l.scale}, {Name: "epsilon", Value: channelVar}}
	case kindView:
		return []graph.Const{{Name: "mean", Value: l.norm[0]}, {Name: "deviation", Value: l.norm[1]}}
	case kindBatchNorm2D:
		return []graph.Const{{Name: "epsilon", Value: plainEps}}
	case kindGroupNorm:
		return []graph.Const{{Name: "groups", Value: l.width}, {Name: "epsilon", Value: layerNormVariance}}
	case kindDropout:
		return []graph.Const{{Name: "probability", Value: l.scale}}
	case kindNorm:
		return []graph.Const{{Name: "epsilon", Value: layerNormVariance}}
	case kindBatchNorm:
		return []graph.Const{{Name: "epsilon", Value: renormEps}}
	}
	return nil
}

// The following methods return constants of units that depend on the sources or on earlier layers.

func (u *numbers[T]) constants() []graph.Const { return []graph.Const{{Name: "first", Value: u.first}} }

func (u *picture[T]) constants() []graph.Const {
	return []graph.Const{{Name: "index", Value: u.index}, {Name: "frames", Value: u.frames},
		{Name: "low", Value: float64(u.decimal[0])}, {Name: "high", Value: float64(u.decimal[255])}}
}

func (u *featureMap[T]) constants() []graph.Const {
	return []graph.Const{{Name: "index", Value: u.index}}
}

func (u *view[T]) constants() []graph.Const { return []graph.Const{{Name: "index", Value: u.index}} }

func (u *embedding[T]) constants() []graph.Const {
	return []graph.Const{{Name: "first", Value: u.first}, {Name: "zero", Value: u.zero}}
}

func (s *wording) constants() []graph.Const {
	return []graph.Const{{Name: "first", Value: s.first}, {Name: "places", Value: s.places},
		{Name: "none", Value: int(s.none)}}
}

func (u *recurrentCell[T]) constants() []graph.Const {
	return []graph.Const{{Name: "state_first", Value: u.at}, {Name: "state", Value: u.State}}
}

// dims returns the shape as a list. For a vector, the list has one number.
func (s Image) dims() []int {
	if s.H == 1 && s.W == 1 {
		return []int{s.C}
	}
	return []int{s.H, s.W, s.C}
}

// described returns the parameters of p from index params on, and its buffers from index buffers on.
func (p *Params[T]) described(params, buffers int) []graph.Param {
	var all []graph.Param
	for i := range p.Fields[params:] {
		all = append(all, p.Param(params+i))
	}
	for _, f := range p.buffers[buffers:] {
		all = append(all, graph.Param{Name: f.Name, Shape: f.Shape})
	}
	return all
}

// Param describes field i.
func (p *Params[T]) Param(i int) graph.Param {
	return graph.Param{Name: p.Fields[i].Name, Shape: p.Fields[i].Shape}
}

// Graph describes the layer.
func (l *Linear[T]) Graph() graph.Node {
	weight := l.p.Param(l.weight)
	return graph.Node{Op: graph.Dense, Name: strings.TrimSuffix(weight.Name, ".weight"), Out: []int{l.Out},
		Params: []graph.Param{weight, l.p.Param(l.bias)}}
}
