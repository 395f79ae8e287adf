package results

import (
	"fmt"
	"math"
	"slices"
)

// A LearningOutcome says in one word how learning went.
type LearningOutcome string

// The verdicts. See Judge for the rule of each.
const (
	TooFew    LearningOutcome = "too few evaluations"
	Rises     LearningOutcome = "rises"
	Holds     LearningOutcome = "holds"
	Falls     LearningOutcome = "falls"
	Collapsed LearningOutcome = "collapsed"
	Flat      LearningOutcome = "flat"
)

// LearningCurve is the judgement of a curve of evaluations.
type LearningCurve struct {
	Verdict    LearningOutcome
	Points     int     // evaluations
	Best       float64 // the best level
	From, To   int     // indices of its first and last evaluation
	Start, End float64 // levels at the start and at the end
	Lost       float64 // share of the gain from the start to the best level that is lost at the end
}

// Constants of the rule. A level is a mean of neighbouring evaluations. A noise is the standard deviation of a
// difference of two such levels.
const (
	fewestPoints = 6    // evaluations
	sureDrop     = 3.5  // noises; the best of many levels is high by chance
	sureStep     = 2.0  // noises, between the middle third and the last third
	sureGain     = 2.5  // noises, between the first third and the last third
	collapseLoss = 0.50 // of the gain
	fallLoss     = 0.20 // of the gain
	leastStep    = 0.05 // of the range of levels: a smaller step is no rise and no fall
	leastChange  = 0.10 // of the noise of training's returns: see LeastChange
	levelStep    = 0.35 // of the mean rise: a curve that surely rises less at its end is level there
	fewestLevel  = 4    // evaluations at the end of a curve that is level there
)

// LeastChange returns the smallest change of an evaluation's return that counts as learning: a tenth of the noise of
// the training returns. This noise comes from random initial states and actions, and hardly from learning. Evaluations
// on the same initial states are often less noisy. The training returns must be finite. With fewer than 3 of them,
// LeastChange returns 0.
func LeastChange(training []float64) float64 {
	var d []float64
	for i := 2; i < len(training); i++ {
		d = append(d, math.Abs(training[i]-2*training[i-1]+training[i-2]))
	}
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return leastChange * d[len(d)/2] / (0.6745 * math.Sqrt(6)) // the median of normal numbers is 0.6745 deviations
}

// Judge judges a curve of evaluations, in their order. If loss is true, lower values are better. Changes smaller than
// the argument least do not count. The values must be finite.
//
// The noise of single values is the root mean square of their second differences, divided by √6, so a straight line has
// no noise. The levels at the start and at the end are means of an eighth of the points, but of at least two points.
// The best level is the largest mean of the same number of neighbours. Judge takes the first rule that holds:
//
//   - Fewer than 6 points: TooFew.
//   - The level at the end is below the best level by 3.5 noises, and by half of the gain from the start to the best
//     level: Collapsed. If there was no gain, or the loss is 20 to 50 % of it: Falls.
//   - The mean of the last third differs from that of the middle third by 2 noises, from that of the first third by 2.5
//     noises in the same direction, and by 5 % of the range of levels: Rises or Falls. An exception is a curve that is
//     level at its end: Holds. Its last quarter, at least 4 points, surely rises by less than 35 % of the mean rise
//     between the thirds. Surely means: by Student's 95 % interval of a line through these points.
//   - The best level is above the level at the start by 3.5 noises: Holds.
//   - Otherwise: Flat.
func Judge(values []float64, loss bool, least float64) LearningCurve {
	n := len(values)
	l := LearningCurve{Verdict: TooFew, Points: n}
	if n == 0 {
		return l
	}
	sign := 1.0
	if loss {
		sign = -1
	}
	v := make([]float64, n)
	for i, x := range values {
		v[i] = sign * x
	}
	width := max(n/8, min(2, n))
	start, end := mean(v[:width]), mean(v[n-width:])
	l.Start, l.End = sign*start, sign*end
	best, worst := math.Inf(-1), math.Inf(1)
	for i := 0; i+width <= n; i++ {
		level := mean(v[i : i+width])
		if worst = min(worst, level); level > best {
			best, l.From, l.To = level, i, i+width-1
		}
	}
	if l.Best = sign * best; n < fewestPoints {
		return l
	}
	single := noise(v) + 1e-9*(math.Abs(best)+math.Abs(worst)) // with the rounding of means
	of := func(points int) float64 { return single * math.Sqrt(2/float64(points)) }
	gain, drop := best-start, best-end
	gained := gain > 0 && gain >= max(sureDrop*of(width), least)
	if gain > 0 {
		l.Lost = drop / gain
	}
	third := n / 3
	first, middle, last := mean(v[:third]), mean(v[third:n-third]), mean(v[n-third:])
	step := func(by float64) bool {
		return by*(last-middle) > 0 && by*(last-middle) >= sureStep*of(third) &&
			by*(last-first) >= max(sureGain*of(third), least) && by*(last-middle) >= leastStep*(best-worst)
	}
	switch dropped := drop > 0 && drop >= max(sureDrop*of(width), least); {
	case dropped && gained && drop >= collapseLoss*gain:
		l.Verdict = Collapsed
	case dropped && (!gained || drop >= fallLoss*gain), step(-1):
		l.Verdict = Falls
	case step(1) && !level(v, (last-first)/float64(n-third)):
		l.Verdict = Rises
	case step(1), gained:
		l.Verdict = Holds
	default:
		l.Verdict = Flat
	}
	return l
}

// level reports whether v is level at its end: its last points surely rise, per point, by less than levelStep times
// rise. The argument rise is the mean rise from point to point.
func level(v []float64, rise float64) bool {
	end := v[len(v)-max(len(v)/4, min(fewestLevel, len(v))):]
	m := float64(len(end))
	at, height := (m-1)/2, mean(end)
	var xx, xy, rest float64
	for i, y := range end {
		x := float64(i) - at
		xx, xy = xx+x*x, xy+x*(y-height)
	}
	slope := xy / xx
	for i, y := range end {
		d := y - height - slope*(float64(i)-at)
		rest += d * d
	}
	margin := student95(len(end)-2) * math.Sqrt(rest/(m-2)/xx)
	return math.Abs(slope)+margin < levelStep*rise
}

// noise estimates the standard deviation of single values around a smooth curve.
func noise(v []float64) float64 {
	sum := 0.0
	for i := 2; i < len(v); i++ {
		d := v[i] - 2*v[i-1] + v[i-2]
		sum += d * d
	}
	return math.Sqrt(sum / 6 / float64(len(v)-2))
}

func mean(v []float64) (m float64) {
	for _, x := range v {
		m += x / float64(len(v))
	}
	return m
}

// Text describes the verdict after the name of the metric: "still rises".
func (l *LearningCurve) Text() string {
	switch l.Verdict {
	case Rises:
		return fmt.Sprintf("it still rises, from %.4g to %.4g", l.Start, l.End)
	case Holds:
		return fmt.Sprintf("it holds, at %.4g at the end", l.End)
	case Falls:
		return fmt.Sprintf("it falls, to %.4g at the end", l.End)
	case Collapsed:
		return fmt.Sprintf("it has collapsed, to %.4g at the end: %.0f %% of what it had gained is lost", l.End,
			100*min(l.Lost, 1))
	case Flat:
		return fmt.Sprintf("it is flat, at %.4g at the end: no more than noise was learned", l.End)
	}
	return string(TooFew)
}
