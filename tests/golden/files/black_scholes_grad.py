"""Value and gradient of `black_scholes` (models.py:81) with respect to `spot`,
`strike`, `years`, `rate` and `volatility`.

Needs NumPy and SciPy only.
"""

import numpy as np
from scipy import special


def check_arrays(spec, *arrays):
    """Raise ValueError unless the arrays are what `spec` says: `float w[3, n]; x[n]`.

    Equal names stand for equal sizes of at least 2: an axis of size 1 would broadcast,
    and needs a gradient of its own.  So do complex numbers; and integers have none.
    """
    sizes = {}
    for part, array in zip(spec.split("; "), arrays, strict=True):
        wanted = [s for s in part[part.rindex("[") + 1 : -1].split(", ") if s]
        found, dtype = np.shape(array), np.asarray(array).dtype
        if len(found) != len(wanted):
            raise ValueError(f"{part} is needed, not an array of shape {found}")
        for text, size in zip(wanted, found, strict=True):
            number = int(text) if text.isdigit() else sizes.setdefault(text, size)
            if size != number or size < 2 and text.isidentifier():
                raise ValueError(f"{part} of {spec} does not fit the shape {found}")
        if part.startswith("float "):
            fits = np.issubdtype(dtype, np.floating)
        else:
            fits = np.iscomplexobj(array) == part.startswith("complex ")
        if not fits:
            raise ValueError(f"{part} is needed, not an array of {dtype}")


def check_arguments(spot, strike, years, rate, volatility):
    """Raise ValueError for arguments that the gradient was not derived for."""
    check_arrays(
        "float spot[n]; float strike[n]; float years[n]; rate[]; float volatility[n]",
        spot,
        strike,
        years,
        rate,
        volatility,
    )


def black_scholes(spot, strike, years, rate, volatility):
    """Sum of the prices of European call options."""
    check_arguments(spot, strike, years, rate, volatility)
    spread = volatility * np.sqrt(years)  # models.py:83
    # models.py:84
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / spread
    d2 = d1 - spread  # models.py:85
    cdf1 = 0.5 * (1.0 + special.erf(d1 / np.sqrt(2.0)))  # models.py:86
    cdf2 = 0.5 * (1.0 + special.erf(d2 / np.sqrt(2.0)))  # models.py:87
    return np.sum(spot * cdf1 - strike * np.exp(-rate * years) * cdf2)


def black_scholes_vjp(spot, strike, years, rate, volatility):
    """Value and pullback of `black_scholes` (models.py:81) with respect to `spot`,
    `strike`, `years`, `rate` and `volatility`.
    """
    check_arguments(spot, strike, years, rate, volatility)
    # forward
    sqrt_years = np.sqrt(years)
    spread = volatility * sqrt_years  # models.py:83
    ratio = spot / strike
    total = rate + 0.5 * volatility**2
    d1 = (np.log(ratio) + total * years) / spread  # models.py:84
    d2 = d1 - spread  # models.py:85
    ratio_2 = d1 / np.sqrt(2.0)
    cdf1 = 0.5 * (1.0 + special.erf(ratio_2))  # models.py:86
    ratio_3 = d2 / np.sqrt(2.0)
    cdf2 = 0.5 * (1.0 + special.erf(ratio_3))  # models.py:87
    exp = np.exp(-rate * years)
    product = strike * exp
    out = np.sum(spot * cdf1 - product * cdf2)  # models.py:88

    def pullback(d_out):
        d_product = -d_out * cdf2
        d_exp_pre = d_product * strike * exp  # of models.py:88
        d_product_2 = 0.5641895835477563 * -d_out / np.sqrt(2.0)
        d_d2 = d_product_2 * product * np.exp(-(ratio_3**2))  # of models.py:87
        # of models.py:86
        d_d1 = 0.5641895835477563 * d_out / np.sqrt(2.0) * spot * np.exp(-(ratio_2**2))
        d_d1 += d_d2  # of models.py:85
        d_d1_pre = d_d1 / spread
        d_spread = -d_d2 - d_d1_pre * d1
        d_total = d_d1_pre * years
        d_rate = -(d_exp_pre @ years) + d_total.sum()
        d_ratio = d_d1_pre / ratio / strike
        d_spot = d_out * cdf1 + d_ratio
        d_strike = d_product * exp - d_ratio * ratio  # of models.py:84
        d_volatility = d_total * volatility + d_spread * sqrt_years  # of models.py:83
        d_years = -rate * d_exp_pre + d_d1_pre * total  # of models.py:84
        d_years += 0.5 * d_spread * volatility / sqrt_years  # of models.py:83
        return d_spot, d_strike, d_years, d_rate, d_volatility

    return out, pullback


def black_scholes_value_and_grad(spot, strike, years, rate, volatility):
    """Value and gradient of `black_scholes` (models.py:81) with respect to `spot`,
    `strike`, `years`, `rate` and `volatility`.
    """
    check_arguments(spot, strike, years, rate, volatility)
    # forward
    sqrt_years = np.sqrt(years)
    spread = volatility * sqrt_years  # models.py:83
    ratio = spot / strike
    total = rate + 0.5 * volatility**2
    d1 = (np.log(ratio) + total * years) / spread  # models.py:84
    d2 = d1 - spread  # models.py:85
    ratio_2 = d1 / np.sqrt(2.0)
    cdf1 = 0.5 * (1.0 + special.erf(ratio_2))  # models.py:86
    ratio_3 = d2 / np.sqrt(2.0)
    cdf2 = 0.5 * (1.0 + special.erf(ratio_3))  # models.py:87
    exp = np.exp(-rate * years)
    product = strike * exp
    out = np.sum(spot * cdf1 - product * cdf2)  # models.py:88
    # backward
    d_product = -cdf2
    d_exp_pre = d_product * strike * exp  # of models.py:88
    # of models.py:87
    d_d2 = -0.5641895835477563 / np.sqrt(2.0) * product * np.exp(-(ratio_3**2))
    # of models.py:85
    d_d1 = 0.5641895835477563 / np.sqrt(2.0) * spot * np.exp(-(ratio_2**2)) + d_d2
    d_d1_pre = d_d1 / spread
    d_spread = -d_d2 - d_d1_pre * d1
    d_total = d_d1_pre * years
    d_rate = -(d_exp_pre @ years) + d_total.sum()
    d_ratio = d_d1_pre / ratio / strike
    d_spot = cdf1 + d_ratio
    d_strike = d_product * exp - d_ratio * ratio  # of models.py:84
    d_volatility = d_total * volatility + d_spread * sqrt_years  # of models.py:83
    d_years = -rate * d_exp_pre + d_d1_pre * total  # of models.py:84
    d_years += 0.5 * d_spread * volatility / sqrt_years  # of models.py:83
    return out, (d_spot, d_strike, d_years, d_rate, d_volatility)
