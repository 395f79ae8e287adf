package stats

import "math"

// A FitPoint is a measurement for Fit. The model is Time = α·Rounds + β·Bytes.
type FitPoint struct {
	Rounds float64 // number of successive messages
	Bytes  float64 // number of successive bytes
	Time   float64
}

// A LinearFit is the result of Fit.
type LinearFit struct {
	Alpha    float64 // time of a round, in the unit of the points' times
	Beta     float64 // time of a byte
	Residual float64 // root of the mean square of (measured-fitted)/measured
}

// Fit returns the α, β >= 0 that minimize the sum of squares of the relative errors (Time - α·Rounds - β·Bytes)/Time.
// It ignores points whose Time is not positive. Without points the LinearFit is zero. Gonum's LinearRegression has one
// variable and an intercept, and no bounds.
func Fit(points []FitPoint) LinearFit {
	var rr, rb, bb, r1, b1 float64 // sums over points of products of r = Rounds/Time, b = Bytes/Time and 1
	n := 0
	for _, p := range points {
		if !(p.Time > 0) {
			continue
		}
		r, b := p.Rounds/p.Time, p.Bytes/p.Time
		rr, rb, bb, r1, b1 = rr+r*r, rb+r*b, bb+b*b, r1+r, b1+b
		n++
	}
	var l LinearFit
	// If α or β is negative at the free minimum, the least sum for α, β >= 0 has α = 0 or β = 0.
	if det := rr*bb - rb*rb; det > 1e-12*rr*bb {
		l.Alpha, l.Beta = (r1*bb-b1*rb)/det, (b1*rr-r1*rb)/det
	}
	if l.Alpha <= 0 || l.Beta <= 0 {
		onlyAlpha, onlyBeta := LinearFit{}, LinearFit{}
		if rr > 0 {
			onlyAlpha.Alpha = r1 / rr
		}
		if bb > 0 {
			onlyBeta.Beta = b1 / bb
		}
		// Σ(1-αr)² at its minimum is n - (Σr)²/Σr². The formula for β is similar.
		if l = onlyAlpha; onlyBeta.Beta*b1 > onlyAlpha.Alpha*r1 {
			l = onlyBeta
		}
	}
	var squares float64
	for _, p := range points {
		if p.Time > 0 {
			e := 1 - l.At(p.Rounds, p.Bytes)/p.Time
			squares += e * e
		}
	}
	if n > 0 {
		l.Residual = math.Sqrt(squares / float64(n))
	}
	return l
}

// At returns the line's time for this number of rounds and bytes.
func (l LinearFit) At(rounds, bytes float64) float64 { return l.Alpha*rounds + l.Beta*bytes }
