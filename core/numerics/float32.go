package numerics

import "math"

// The functions of this file are for loops over many elements. They reduce and
// evaluate in float64, so that an error of the float32 result over half of the
// last place comes from the last rounding alone, up to the few 1e-10 that the
// polynomials leave; the tests hold them to 0.51 of it.

const (
	expBits = 5 // log2 of the entries of expTable
	logBits = 5 // log2 of the entries of logTable
)

var (
	// expTable[i] is the bits of 2^(i/32) less i in the place where the
	// exponent begins, so that adding the integer 32k + i there adds k alone.
	expTable = func() (table [1 << expBits]uint64) {
		for i := range table {
			table[i] = math.Float64bits(math.Exp2(float64(i)/(1<<expBits))) - uint64(i)<<(52-expBits)
		}
		return table
	}()

	logTable = makeLogTable()
)

// exp32 is Exp32 before the last rounding, for |x| <= 200 or NaN. It splits x
// into (k + r) ln 2 / 32 with an integer k and |r| <= 1/2, as P. Tang,
// "Table-driven implementation of the exponential function in IEEE
// floating-point arithmetic", 1989; the remainder of the Taylor polynomial is
// under 6e-10.
func exp32(x float64) float64 {
	const (
		shift = 0x1.8p52 // its last place is 1
		c1    = math.Ln2 / (1 << expBits)
		c2    = c1 * c1 / 2
		c3    = c1 * c1 * c1 / 6
	)
	z := x * ((1 << expBits) / math.Ln2)
	k := z + shift
	bits := math.Float64bits(k)
	r := z - (k - shift)
	scale := math.Float64frombits(expTable[bits%(1<<expBits)] + bits<<(52-expBits))
	return scale + scale*r*(c1+r*(c2+r*c3))
}

// Exp32 returns e to the power x.
func Exp32(x float32) float32 {
	switch {
	case x > 89:
		return float32(inf)
	case x < -104:
		return 0
	}
	return float32(exp32(float64(x)))
}

// Sigmoid32 returns 1 / (1 + exp(-x)).
func Sigmoid32(x float32) float32 {
	// Beyond these the result is 1 or 0.
	return float32(1 / (1 + exp32(-float64(min(max(x, -110), 110)))))
}

// Tanh32 returns the hyperbolic tangent of x: up to 5/8 by the fifth convergent
// of Lambert's continued fraction, whose relative error there is under 2e-10,
// and from there on by the exponential.
func Tanh32(x float32) float32 {
	if x < 0.625 && x > -0.625 {
		t := float64(x)
		s := t * t
		return float32(t * (945 + s*(105+s)) / (945 + s*(420+s*15)))
	}
	// From 10 on the result is 1.
	return float32(1 - 2/(exp32(2*float64(min(max(x, -20), 20)))+1))
}

// A logEntry belongs to the interval of significands around c.
type logEntry struct {
	inverse float64 // 1/c
	log     float64 // log c
}

// logOrigin is the bits of the float32 where the first interval begins, about
// 0.7: 32 of them reach to twice that, and 1 is inside one.
const logOrigin = 0x3f330000

// makeLogTable takes for c the middle of every interval, and 1 in that of 1,
// where the logarithm must be small with its argument.
func makeLogTable() (table [1 << logBits]logEntry) {
	const width = 1 << (23 - logBits)
	for i := range table {
		low := uint32(logOrigin + i*width)
		c := float64(math.Float32frombits(low + width/2))
		if low <= 0x3f800000 && 0x3f800000 < low+width {
			c = 1
		}
		table[i] = logEntry{1 / c, math.Log(c)}
	}
	return table
}

// Log32 returns the natural logarithm of x. It writes x as 2^k c (1 + r) with c
// from a table and |r| < 1/32 (P. Tang, "Table-driven implementation of the
// logarithm function in IEEE floating-point arithmetic", 1990); the remainder
// of the Taylor polynomial of log(1 + r) is under 2e-10 of its value.
func Log32(x float32) float32 {
	bits := math.Float32bits(x)
	exponent := 0
	if bits-0x00800000 >= 0x7f800000-0x00800000 { // not a positive normal number
		switch {
		case x == 0:
			return float32(-inf)
		case x < 0:
			return float32(nan)
		case bits >= 0x7f800000: // +Inf, NaN
			return x
		}
		bits = math.Float32bits(x * 0x1p23)
		exponent = -23
	}
	t := bits - logOrigin
	exponent += int(int32(t) >> 23)
	e := &logTable[t>>(23-logBits)%(1<<logBits)]
	r := float64(math.Float32frombits(bits-t&0xff800000))*e.inverse - 1
	s := r * r
	p := r + s*(-1./2+r*(1./3)+s*(-1./4+r*(1./5)-s*(1./6)))
	return float32(float64(exponent)*math.Ln2 + e.log + p)
}

// Coefficients of erf around the middle of [i/2, (i+1)/2], i = 1 to 7, in
// rising order: they interpolate at the Chebyshev nodes, with an error under
// 6e-11.
var erfTable = [...][9]float64{
	{0.7111556336535151, 0.6429310712774083, -0.48219830198834535, 0.02678835001786172, 0.15068698901177438, -0.05321707284122266, -0.026873651101866975, 0.017885346553102983, 0.0023265719863550948},
	{0.9229001282564583, 0.23652112200053715, -0.2956514034807872, 0.16753589054389098, -0.0061593142448205995, -0.04718656232806734, 0.021296085355927082, 0.0037451869442022795, -0.005586788818913026},
	{0.9866716712191824, 0.05277499545100821, -0.09235624264540086, 0.09015738693523755, -0.04810225943927831, 0.006618472875159071, 0.008965908153190295, -0.005933097163841728, 0.0006686899678289836},
	{0.9985372834133188, 0.007142319215265384, -0.016070217791701872, 0.02172451243102466, -0.019083385297273117, 0.010660061221885528, -0.002904263293935266, -0.0007215428297713683, 0.000997585661566905},
	{0.9998993780778803, 0.0005862772864770524, -0.0016122624589234025, 0.002760380311600983, -0.003258107383686746, 0.002756290584204273, -0.0016576889976623198, 0.0006358191267518041, -8.129268505391004e-05},
	{0.9999956972205363, 2.918901170222546e-05, -9.486433139100725e-05, 0.0001958126322149411, -0.0002865695746403393, 0.0003136287727590479, -0.0002635147002433209, 0.00017359722154729182, -8.195001960464159e-05},
	{0.9999998862727434, 8.814288560961666e-07, -3.305369314096925e-06, 7.970327146485969e-06, -1.3841539144233532e-05, 1.833008067086859e-05, -1.925549076040073e-05, 1.7144525192668482e-05, -1.1495461796416181e-05},
}

// Erf32 returns the error function of x: below 1/2 by its Taylor polynomial
// (Abramowitz and Stegun, 7.1.5), whose remainder is under 2e-10 of the value,
// then by polynomials of an interval each.
func Erf32(x float32) float32 {
	t := math.Abs(float64(x))
	if t < 0.5 {
		x := float64(x)
		s := x * x
		return float32(x * (2 / math.SqrtPi) * (1 + s*(-1./3+s*(1./10+s*(-1./42+s*(1./216+s*(-1./1320+s*(1./9360-s*(1./75600)))))))))
	}
	if !(t < 4) {
		if x != x {
			return x
		}
		return float32(math.Copysign(1, float64(x)))
	}
	i := int(2 * t)
	c := &erfTable[i-1]
	t -= float64(i)/2 + 0.25
	s := t * t
	y := c[0] + c[1]*t + s*(c[2]+c[3]*t) + s*s*(c[4]+c[5]*t+s*(c[6]+c[7]*t+s*c[8]))
	return float32(math.Copysign(y, float64(x)))
}

// quarterTurns returns the integer n nearest to x / (pi/2), modulo 4, and r with
// x = n pi/2 + r, for |x| < 2^19. The upper part of pi/2 has 33 bits, so that its
// product with n and the difference are exact (W. Cody, W. Waite, "Software
// manual for the elementary functions", 1980).
func quarterTurns(x float64) (n uint64, r float64) {
	const (
		shift = 0x1.8p52
		upper = 0x1.921fb544p+0
		lower = 0x1.0b4611a626331p-34
	)
	k := x*(2/math.Pi) + shift
	q := k - shift
	return math.Float64bits(k) % 4, (x - q*upper) - q*lower
}

// The Taylor polynomials of sine and cosine on |r| <= pi/4 leave 3e-12 and
// 1e-10 of the value.

func sinPolynomial(r float64) float64 {
	s := r * r
	return r * (1 + s*(-1./6+s*(1./120+s*(-1./5040+s*(1./362880-s*(1./39916800))))))
}

func cosPolynomial(r float64) float64 {
	s := r * r
	return 1 + s*(-1./2+s*(1./24+s*(-1./720+s*(1./40320-s*(1./3628800)))))
}

// Sin32 returns the sine of x.
func Sin32(x float32) float32 {
	if !(x < 0x1p19 && x > -0x1p19) {
		return float32(math.Sin(float64(x)))
	}
	n, r := quarterTurns(float64(x))
	return quarterSine(n, r)
}

// Cos32 returns the cosine of x.
func Cos32(x float32) float32 {
	if !(x < 0x1p19 && x > -0x1p19) {
		return float32(math.Cos(float64(x)))
	}
	n, r := quarterTurns(float64(x))
	return quarterSine(n+1, r)
}

// quarterSine returns the sine of n pi/2 + r.
func quarterSine(n uint64, r float64) float32 {
	y := 0.0
	if n&1 == 0 {
		y = sinPolynomial(r)
	} else {
		y = cosPolynomial(r)
	}
	if n&2 != 0 {
		y = -y
	}
	return float32(y)
}
