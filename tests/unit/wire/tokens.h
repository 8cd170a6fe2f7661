/* tokens.h: keys and tokens of tests, printed by tokens.js. */
#ifndef CLAIRON_TESTS_TOKENS_H
#define CLAIRON_TESTS_TOKENS_H

/* clang-format off */
static const char JWKS[] =
    "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"rZW7LMj6fYyx-QhymqK3LMefOFLG2YHWjhhe00WBM36"
    "V9GsggTN8odjQUVBHZYQ0cMbBDMY3OCixGgDi47lpIUCJzdCzki8poYcHiXYB0MOXrVkdh"
    "-eVfO06PiITR2VgKr_M8bpRO1mPQTuh4_-qUlrRo_CWPQURZdEOgO8MYvYIGGe9wQemADI"
    "lK6kBALMJiBoHm5l6HwwVv_FCU5TMAJ-wFBH-6cGV3dBP9FvaC3H_tV4fcGov6gFPh6pv7"
    "8mku_8vxllSuCa0qW-8JxVSMgdbob7xWG5y1DJXsnVTTDMiBFE4LlXHD4SIQSxZNGKZG_-"
    "tn9VC8CPlK2kReKdU0w\",\"e\":\"AQAB\",\"kid\":\"rsa\",\"use\":\"sig\"},{\"kty\":\"EC\",\""
    "x\":\"efqBk8SUzztamJVcQj49ZLFtDdifj36YRrET_ugLvtY\",\"y\":\"gGFt_KjCXNVBwW4u"
    "uxp83QFK1gpljZ64Ds4jk5eqzNM\",\"crv\":\"P-256\",\"kid\":\"p256\",\"key_ops\":[\"ve"
    "rify\"]},{\"kty\":\"EC\",\"x\":\"p2BU29xK6B21sS-Huiu6ty9wvj03E16nlVBiBTe3Ek9Wz"
    "X8z6nl9x5m7LH1ejy-H\",\"y\":\"OuvASeYcFgydkkEOA4ALa7V9932Z92oqeTzmTSirclwn"
    "mFUwBJwxgq1AWi_y4V_A\",\"crv\":\"P-384\",\"kid\":\"p384\"},{\"crv\":\"Ed25519\",\"x\""
    ":\"6K3SHppc95YH6SyVej0CC-Yia3sre3mGVb-CADl7ZDU\",\"kty\":\"OKP\",\"kid\":\"ed25"
    "519\",\"use\":\"sig\",\"alg\":\"EdDSA\"},{\"kty\":\"RSA\",\"n\":\"9MEaZ9XhEOdj6L-w-6pD"
    "PZvw3IiPDdHshRVr7fsDwZcjbYANM9vlysaoTdTOs9pBuRRcdqPwrBjNqTBKcqVEpdKzO0"
    "BBOzYdzhf9f7qb7Q1JIMyu7dcEbrUYD8RMe8oR3hxjHr3Tn0ow90QUFatWN4Boc4a743rk"
    "jWSdI4zeKfM\",\"e\":\"AQAB\",\"kid\":\"short\"},{\"kty\":\"RSA\",\"n\":\"nL3VtBamYI9RN"
    "noe5XqmrpVqoKOjD4_EeZg5kv8GFGGDuVE-t7iaDeztpBx1AKAry5ZxNAPYfui-d-QWV83"
    "-nDhqpnNar6ZIlIrTXzyh1ee3vnifcoVcTundaZCt_M-9izjtGORrR8zUCX5IoGWdgp6U4"
    "bu7CAFXQEIrdV8E-6h9virAQ_EX3uWUkg6He6DOdePitgaxiQnsDnAZaFvXk8YZNyVApbU"
    "dcyMYsmPR7LV1nJtgwRed-BTVhgAODS22tu0MRb49faIiy6Rx0mLSuv0f1m-J1tio8yl8t"
    "jD7lClfKRhG1rEkoqE-C719g4I6L6yqU4sG3qXzCP7Yvb4_Ww\",\"e\":\"AQAB\",\"kid\":\"e"
    "ncryption\",\"use\":\"enc\"},{\"kty\":\"RSA\",\"n\":\"n7E95NoAomwRBALqlq7q2amowROX"
    "ZjSyweWEQhcg7bBGZvdzZ_N-XCoKMmw3mq7HOyg8hypqN5Wh5WQQ8PW9FG9Qi6jLJScAmX"
    "wpboXJwS6dPGUXjjIQ1q4Z-zZdiZeB-1AA1176xuPOoB22wK7YQLVQ_piwVFUPrm-puDXw"
    "SsPRISpbP4iBqZwEbPSCEG6-Oh_YK3DLYLG_UfTjytfK3QmBzbyqN_QCF1znnwQeKL3CSS"
    "dycMhP0FEqpHTdNzChYxLPRCl2phd8CrKG-0KgHIJ3hRHvTyk6EbzvgyX8Y8kvzXzE1rIF"
    "yyFoZWxHr-sfFopSvyb9WYnluPc5MXuFiw\",\"e\":\"AQAB\",\"kid\":\"pss\",\"alg\":\"PS25"
    "6\"},{\"kty\":\"oct\",\"kid\":\"oct\",\"k\":\"1W3AneL8idGlrGiiVBlCOBByyw9McgxxVBNb"
    "pQwQI8I\",\"alg\":\"HS256\"},{\"kty\":\"EC\",\"crv\":\"P-521\",\"kid\":\"p521\",\"x\":\"AA"
    "\",\"y\":\"AA\"},{\"kty\":\"new\",\"kid\":\"new\"},7]}";
static const char JWKS_OF_TWO[] =
    "{\"keys\":[{\"kty\":\"EC\",\"x\":\"efqBk8SUzztamJVcQj49ZLFtDdifj36YRrET_ugLvtY\""
    ",\"y\":\"gGFt_KjCXNVBwW4uuxp83QFK1gpljZ64Ds4jk5eqzNM\",\"crv\":\"P-256\",\"kid\""
    ":\"p256\",\"key_ops\":[\"verify\"]},{\"kty\":\"EC\",\"x\":\"p2BU29xK6B21sS-Huiu6ty9"
    "wvj03E16nlVBiBTe3Ek9WzX8z6nl9x5m7LH1ejy-H\",\"y\":\"OuvASeYcFgydkkEOA4ALa7"
    "V9932Z92oqeTzmTSirclwnmFUwBJwxgq1AWi_y4V_A\",\"crv\":\"P-384\",\"kid\":\"p384\""
    "}]}";
static const char TOKEN_RS256[] =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJzdWIiOiJ1NDIiL"
    "CJleHAiOjE3OTUyMzA2MDB9.VmnfFutfmgJT6QuQ8QT2Th7t8HhIeiMgJiZDSTQvd028pl"
    "LDapzKCUGW-7h3Po1v0XrQFgrXQWI7zJJbEBlUkLS54oUO787FCKNG3xAVw-eIBA6SrHMT"
    "d9WtgbOeNAOg0oxjGRfgMQPgjSX57yfq-tjttIk99TqcrIXk_45K61RF4ywNqCTPYYA9PE"
    "44DJjrilESEkdFWNr2bARVYJJ1V2BonU7wnYBqT3vg9R0RpV2rzxmZuNMDk8ZajH7Ra4Ny"
    "7SmH0xhnBFJMGcWbfuYph5rf8whYd-W2uLtnZAptnFwTigBHxvco7tYMhpR-0o5Rxy4fFL"
    "BPct8b-SuKvz_E3g";
static const char TOKEN_RS384[] =
    "eyJhbGciOiJSUzM4NCIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJzdWIiOiJ1NDIiL"
    "CJleHAiOjE3OTUyMzA2MDB9.OijlO4VdrMIVPWhK72DFk9Laj91CPMTX7qIrfHilnG9kO8"
    "8AavOekqzcqLw-Egfiuu2rNe-nF_8sZ9qEkkL8dMtVYKD3zNUECtKWTTLB-Uej6Yl8fErR"
    "2OgGxsIOzTLl51i_MRoXqUWAfCWfRcIxxeAeu-cppfZyuHSglLIVKMthOaihft5u8-5gx4"
    "s6Q5TJq8oBPnQB3pMrIFycBaQi_l-hMBhrTMJK0siANLDjCdEtbN0P1-aR-yqH0QIxsMq2"
    "ft-iRNN3Y3dMDbzkUs1mlyXLpw5dazsTTQsgMZeV2U9F5gHzjoN1opAATX2aST013dCKMB"
    "ktYVgJO4TJT1ufSA";
static const char TOKEN_RS512[] =
    "eyJhbGciOiJSUzUxMiIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJzdWIiOiJ1NDIiL"
    "CJleHAiOjE3OTUyMzA2MDB9.bn97k-M8tGiBhEnZvEdW0QgBJyGZhEiq_pWNWGhvUeD5z1"
    "fhpEJ_Ra2Gq04vK_g3Uahl6D6aXO5Kh5abYoglcbYiYjUmGSka9CXGh-8ZwcWjHrP0fzq0"
    "8g0SCwBDNX54i5R0hzZByYdnbtc5eFbrkftcTJZ71sYJGrHf2e4s6j4IZ_O-TFwH_ATj39"
    "XM76rV_i-ZQbAsXrc0WZdZt3UQ4bGVN7ZcO5iUmNsq67EfaxiSkZU4XLtG4i_gQa39X8zU"
    "mzI1QBOtNvVF8soCn7HlgFFu7dCKna2G8wHXUBTq_yTOjBeEqC3PTDM6ynOmsClA6svUSR"
    "tcQnVCwMfy710Efg";
static const char TOKEN_PS256[] =
    "eyJhbGciOiJQUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJzdWIiOiJ1NDIiL"
    "CJleHAiOjE3OTUyMzA2MDB9.NyzdRPKfNrXDUVV2uEopUVlihPE0ylMd-Zb3TCIpbcYqGc"
    "SCeAj54NnSDrgFwc8ZRZvGZRXq6mqJwyyebatfb6S0sO7OQShjD61VwdsD5HNtTMNv8lWy"
    "n0N1arHid9Zx8M-bw-nDawN7T8QKxDnM5A3N-6HQfgdF_iG-w38IYM9Y9jwyVHPXTSQ_oG"
    "9wdEh5Ylr8NwAJ7URDc7CMwFO4mHmB999aKp5y_bWKFfZInui0Nnj2xsofaC0YJqIFIlK4"
    "YfspYDEN6nL2nX3Kb2dlFTGzatLhS158qKCeAUDhSHBPcPGbisf-ZRDtOJvvZp_FSPIm7I"
    "HZYIWoHZ8TYgBIUQ";
static const char TOKEN_PS384[] =
    "eyJhbGciOiJQUzM4NCIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJzdWIiOiJ1NDIiL"
    "CJleHAiOjE3OTUyMzA2MDB9.nT80t8v2pPQqjzFMSnHu9sYceQeg5fWZDVrWhxAVLmi88F"
    "63SzByXrtX89QOTM__XnvQH7p831R6jii1Vu20U-yxHKW7qj7-GpPyDT2mVc6BVxsY3BST"
    "ZSIc5eQxX6GSOnxo7yxYhAOz03r_1mlWEhEwiM0Wv3xGGUfQcDkOzK64UAEn5ZSG-uVJUX"
    "PZYBfNYxThaeo9TgzpXpyfLb3aSnxTkAcAnvukpeDcv0e--6XyEI7cqYETSsM0AJMisrXc"
    "ZHomk_Ko4v6Rt85NJf5Xn_FhexcTaCa4L6BwyL6xhngV4_zJVXjpVSvO2g16KNjCYlfeuB"
    "gCsqgiOr2IyqsGzQ";
static const char TOKEN_PS512[] =
    "eyJhbGciOiJQUzUxMiIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJzdWIiOiJ1NDIiL"
    "CJleHAiOjE3OTUyMzA2MDB9.EUpmoZ1H1HnOv8heiMDAfZx8YmS1zVD999SS0PkHyD4eqi"
    "TvwVoqvAtAdX8Od4ieOX383NkKkXWQSsdDUSyFYH_fjD4UkuB8UxV_VV_HJF2CMlUxk31F"
    "uNxl2J58q_P2iWS-BqMsb0j9WXWXKCj2OaZAdhu6p9X8r0IlDbs8voR8OT9tUoiJoSqa0T"
    "jn8qvDt_IZ0CTcICPNJViVVXWmRezQ2y5xRfGu-DO-vHqem_Ard3fMDIfu63L8iq__kvAL"
    "WOQX-dWxYUkNGztNJKdNUCqTz63P_Wgk2oqretn4CcTZUfRo_sX1YcaN2yKYucpsM4716W"
    "yul1u_62qW83DJvQ";
static const char TOKEN_ES256[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InAyNTYifQ.eyJzdWIiOiJ1NDI"
    "iLCJleHAiOjE3OTUyMzA2MDB9.fv0Ql1Khj7SuEbMP0UVBCF73xeauh_RUEOVz63aGT6LL"
    "8KhXkgBJjUuQ3GrmZ_m99GbWykadJ9oNDj9ippwPeQ";
static const char TOKEN_ES384[] =
    "eyJhbGciOiJFUzM4NCIsInR5cCI6IkpXVCIsImtpZCI6InAzODQifQ.eyJzdWIiOiJ1NDI"
    "iLCJleHAiOjE3OTUyMzA2MDB9.N396liGnCuhrVl0DLb1YBVgQdo7xUj1j_H7a8QZ0yZo3"
    "TKbff95drfuoLImoImqTAI-GUHEgxrzs3lq1i5RSRHgf2CE47muZXY4qMQ26C_GRuxDL8S"
    "EUVZGSwouEuLjJ";
static const char TOKEN_EDDSA[] =
    "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCIsImtpZCI6ImVkMjU1MTkifQ.eyJzdWIiOiJ"
    "1NDIiLCJleHAiOjE3OTUyMzA2MDB9.uGl1Yhxas76a1TaXfZtRvSg1WUXYmtLW95roRWXc"
    "mWQUUiP1zgW_dItEip3qqDBxkspNP7919BDzgvEb-o0SDA";
static const char TOKEN_HS256[] =
    "eyJhbGciOiJIUzI1NiIsImtpZCI6Im9jdCJ9.eyJzdWIiOiJ1NDIiLCJleHAiOjE3OTUyM"
    "zA2MDB9.iMB2LL-EZybop1fVeYncp7fTAF-E9i2aymVwap6GKDg";
static const char TOKEN_NO_KID[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ1NDIiLCJleHAiOjE3OTUyM"
    "zA2MDB9.Hdzf8isUYQa37lObThBL94Q6q37UrUmcME97RQVIvjF-r7zBdUP_QPvcx0nWiH"
    "wIsWM-zw-utcGYPSGAzNE-kA";
static const char TOKEN_NO_KID_RSA[] =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ1NDIiLCJleHAiOjE3OTUyM"
    "zA2MDB9.Q2RerndN7YiH4uUB3LCsto5ClmE8g-enenVOon42Laf6j7NvzznlBzAodFqTbi"
    "jCPNd7GAbDIT9wWu7Tc-GcURjwBG8kC5utcDITI7nbMLhH0KKO3hbVi6xb0tMGfQs957w7"
    "NUnkHW2WrdWH_YZZ-3S9LAbDKFMsRn4FmUmyNFU1mpGD-c6nbfLpPHW72GaahzdTC4oXck"
    "du-8wyMZIgzT5tBhL58U990az9RsqCEI3w19lAgVrxEnhZG6ggfS1KgzAaUgT5ZhTrSfI4"
    "NxdzhY2qLJlwoCIR5YYdRZP1Wpiu71My8dDCeRROvrt0kV8K4vKiMgew0ql-qlLaK4zigQ";
static const char TOKEN_OTHER_KID[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InAzODQifQ.eyJzdWIiOiJ1NDI"
    "iLCJleHAiOjE3OTUyMzA2MDB9.JDtr-i0r0AV8hUN4y6w5dTouCxXtRvfCDYElBc8H7R3x"
    "PV6mEj16glK8Hr3qlQ8EMdG0RPzD2j1vvNVfM38XiQ";
static const char TOKEN_UNKNOWN_KID[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6Im5leHQifQ.eyJzdWIiOiJ1NDI"
    "iLCJleHAiOjE3OTUyMzA2MDB9.pJpLWubeQIAFpl1kEHIS1oBWLyHZD-YcwbFSl5i4LHj2"
    "1JpJte6df7cTPK1ZhQn-a0DUUwBnsMcpfIvdEMLzDQ";
static const char TOKEN_NUMBER_KID[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6N30.eyJzdWIiOiJ1NDIiLCJleH"
    "AiOjE3OTUyMzA2MDB9.mSbMBm-oSNsrlLnLUEsnxdRkdABoqZflIzSsDYaJU9TM8NJK_xI"
    "vx4SAR4lhcOJ388cJBW_9duZ9fv3yx5nE7g";
static const char TOKEN_SHORT[] =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InNob3J0In0.eyJzdWIiOiJ1ND"
    "IiLCJleHAiOjE3OTUyMzA2MDB9.8wbclFv1XZmULWjxwBkDWP45EgyBQH78tNAOkq8U7dY"
    "xT7ahiamqReiXrpNOGYrkTZtJOEijobQqoxx6hV8GN3AKFqBEn0vcax5IxXbOmNxk_My48"
    "5piC_a2V_iO5Wk6hHfYhnq5QhISCKbVZ93O-jVLowv2fK1y4zGxTgR2JMs";
static const char TOKEN_ENCRYPTION[] =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6ImVuY3J5cHRpb24ifQ.eyJzdWI"
    "iOiJ1NDIiLCJleHAiOjE3OTUyMzA2MDB9.XsbWrDrSuUxMkSk1lAiK6RwYuHRz6htKNq0P"
    "sEgKRBii_vN3p9Kb38J1hxq9nhFJSRkA4RuLd7N4HeENC_lJ0tmXr7Y2t4c9cvm89IH8G3"
    "iTQCsasI1dVl8iaEWMkQGwfcQNSSqoWpYBvBP1YRArreUpMXF3P1vujLEx3HNWcg4Spw42"
    "gLex4d-D66ut0d4XXO2kiOALEq2c52kvAVFpdi2a6ofqa_2KpihLjTu558I8bXLeQ2S-Ju"
    "zVkZycMdvmftq1HdzJUnOoLbz4Xus-2iHXq_-YZ_8TPgP4tMay4WlgP8p-Dd6vNCKgxbXz"
    "sCz0KryHtGFjYWzwrRzMuw2Z2Q";
static const char TOKEN_PSS_KEY_RS256[] =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InBzcyJ9.eyJzdWIiOiJ1NDIiL"
    "CJleHAiOjE3OTUyMzA2MDB9.eTlNsEBVt2rVXIqfhRTmqqyLU3hNgypS8sTKH02h-p26Br"
    "zGNbjnLaTPxTO-B0WrrhLJtPcw2r6Kij23q2OJSuExCzWpSYO7xYEinnNaJWj6pVZFD4sm"
    "K8hvcIFujMu-pARJnhBajXGAt3AekuSmy3C50Pqpcp23usS8fRxZAcU9oEylvUpcgj4BV9"
    "VCm25cNX8Ayb7RntCJxhtgHfO9QdCpHgXszAqvsRAyl400l8EKlQiadxoTwZ8twQdm4EYz"
    "amY7HI-RjyyvaITWN09fOu_ziEsij5OkkE0xCP7JkuLolP7F4N1dI4QnqiAORPOele5Txm"
    "rm3wnG10bA_eHRTw";
static const char TOKEN_PSS_KEY_PS256[] =
    "eyJhbGciOiJQUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InBzcyJ9.eyJzdWIiOiJ1NDIiL"
    "CJleHAiOjE3OTUyMzA2MDB9.noPnr7LOf92kAFPFDgV0xZ7JcUUclo56bCpmUmexMOaK_L"
    "alsa84efXXv4Z28PCgGnEIBwIux9rQxgz2-EVmAQL4dlMDcFxWg0sxr4NydMia8MDN_FvL"
    "daxsn2pdTDQzEMIHdQ8LZ0qbwKZw0_08Zj83kN7qWCCr_TtAJrXf0NRTPQo2-t8pvWd7N6"
    "eH6bMdz6yB462VQwu60-y-_dRHiC_zGMG_bXohsfPOClhrIwwcQDakweOTudlpiGPB5SMx"
    "cvxafIuENylM_4sHEoiye-DknQ7BnakYr9JmEDdzqzt0kBa1QI9Gv_r2JZhhyPSzpv1zuA"
    "sxdlolTDZNqPNzWw";
static const char TOKEN_CRIT[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InAyNTYiLCJjcml0IjpbImV4cC"
    "JdfQ.eyJzdWIiOiJ1NDIiLCJleHAiOjE3OTUyMzA2MDB9.haVRCrlQkn_cDVL9jwGQp37m"
    "3VNxGUzh6FDzlikBJe62THeT5rFg1UIRKm9qlZ98Y2FaANqV8JeT6BolgPX0aw";
static const char TOKEN_EMBEDDED[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InAyNTYiLCJqd2siOnsia3R5Ij"
    "oiRUMiLCJ4IjoieC1BRHVFQl9QcTlTSjA0NGJLNlBLTllUNkpYRlhOby1SR0VRaUV1WWFZ"
    "ZyIsInkiOiJEYVBGRXZiMTRDSTVJS0pNbnBodVZtUmpqcldGcm04REF1TDRlYzNfWE5NIi"
    "wiY3J2IjoiUC0yNTYifSwiamt1IjoiaHR0cDovLzEyNy4wLjAuMToxL2p3a3MiLCJ4NXUi"
    "OiJodHRwOi8vMTI3LjAuMC4xOjEvIiwieDVjIjpbIkFBPT0iXX0.eyJzdWIiOiJ1NDIiLC"
    "JleHAiOjE3OTUyMzA2MDB9.79xLC6Stl-QvsqI0u9rcHV47blota0NrHDUwWTkbC_3o2pB"
    "-fDbmw88QDw0vPDu1lgQWl36nBjtXZe5A-zhgug";
static const char TOKEN_NONE[] =
    "eyJhbGciOiJub25lIiwia2lkIjoicDI1NiJ9.eyJzdWIiOiJ1NDIiLCJleHAiOjE3OTUyM"
    "zA2MDB9.AA";
static const char TOKEN_CONFUSED[] =
    "eyJhbGciOiJIUzI1NiIsImtpZCI6InJzYSJ9.eyJzdWIiOiJ1NDIiLCJleHAiOjE3OTUyM"
    "zA2MDB9.SeRz1xObgy70QfKpGnXXx-gpQcl77V7OepWzPMal1mM";
static const char TOKEN_KEYCLOAK[] =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJleHAiOjE3OTUyM"
    "zAzMDAsImlhdCI6MTc5NTIzMDAwMCwiYXV0aF90aW1lIjoxNzk1MjI5OTk1LCJqdGkiOiJ"
    "vbnJ0YWM6MGI1YTJjOWUtOGMxZi00ZjdlLTlhNDItM2YwZjViMWQ3ZjExIiwiaXNzIjoia"
    "HR0cHM6Ly9zc28uZXhhbXBsZS5vcmcvcmVhbG1zL2FwcCIsImF1ZCI6WyJjbGFpcm9uIiw"
    "iYWNjb3VudCJdLCJzdWIiOiI0ZjliNmYwZS0wZDVlLTRiNTYtOWQxYy0wYThmMWMyZDNlN"
    "GYiLCJ0eXAiOiJCZWFyZXIiLCJhenAiOiJ3ZWIiLCJzaWQiOiJmM2IxYTFmNi0yZjQzLTR"
    "lMmUtOGE3Ny0yZDRmMGU1YjZjN2QiLCJhY3IiOiIxIiwiYWxsb3dlZC1vcmlnaW5zIjpbI"
    "mh0dHBzOi8vYXBwLmV4YW1wbGUub3JnIl0sInJlYWxtX2FjY2VzcyI6eyJyb2xlcyI6WyJ"
    "vZmZsaW5lX2FjY2VzcyIsIm51cnNlIl19LCJyZXNvdXJjZV9hY2Nlc3MiOnsiY2xhaXJvb"
    "iI6eyJyb2xlcyI6WyJyZWFkZXIiXX0sImFjY291bnQiOnsicm9sZXMiOlsibWFuYWdlLWF"
    "jY291bnQiXX19LCJzY29wZSI6Im9wZW5pZCBwcm9maWxlIiwiZW1haWxfdmVyaWZpZWQiO"
    "nRydWUsInByZWZlcnJlZF91c2VybmFtZSI6ImFkYSIsImdyb3VwcyI6WyIvd2FyZC83Il1"
    "9.SHVdp3EhWCPleGJy8MLNoLyAI4u0n2IUCmJjxMleVGZXtZgsPVSWpRp02GFIS76Lpatq"
    "FkNVXYO9xkO2hJq8lZIvJfVkxnNY9qjH8Gh4yxjdGUL7MfkgiAIOpPxuxhu7he1hJ6NAx2"
    "oamtuFCs5KSiwnzhh6SjvJcf2SEn7Tpd3aQyQMMsjh3-MHJK8HSvucZeuYsR6aKFlb-sJc"
    "FxAlU2CVj_LdyeapLD2Fo6NGTb_Y84D8MiK2lkTG6-1x6DXKhsIzaIopaJiwVBvwsJhspY"
    "Qt4cW4B0q9PY7cH0ew4yCzoubArtmuKKm7h0HBi2wc8k42F6iKUgpbqrruT3Nm3w";
static const char TOKEN_AUTH0[] =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6ImF0K2p3dCIsImtpZCI6InJzYSJ9.eyJodHRwczovL"
    "2FwcC5leGFtcGxlLm9yZy9yb2xlcyI6WyJudXJzZSJdLCJpc3MiOiJodHRwczovL3RlbmF"
    "udC5ldS5hdXRoMC5jb20vIiwic3ViIjoiYXV0aDB8NWY3YzhlYzdjMzNjNmMwMDRiYmFmZ"
    "TgyIiwiYXVkIjpbImh0dHBzOi8vY2xhaXJvbi5leGFtcGxlLm9yZyIsImh0dHBzOi8vdGV"
    "uYW50LmV1LmF1dGgwLmNvbS91c2VyaW5mbyJdLCJpYXQiOjE3OTUyMzAwMDAsImV4cCI6M"
    "Tc5NTMxNjQwMCwiYXpwIjoibXlfY2xpZW50X2lkIiwic2NvcGUiOiJvcGVuaWQgcHJvZml"
    "sZSBlbWFpbCIsInBlcm1pc3Npb25zIjpbInJlYWQ6cm93cyJdfQ.U2aECQ5pAn3-23rEX1"
    "PfzLQN9QlZFbJ8JIkXOgmwYWxHP_lsolEuj-gpBsvpvff6oDzjLMvMDPVenofQiAWxQuZU"
    "8wQmg7A7rCRxnsme93Yx7WxiqAMq3eAcv9x1qlw9ePYY5wbL-Ch8kGy5fXgIC48YfgrRAz"
    "SbO_83NQD2nH55ZWMyVgxpsA3MN3EwzS4yQTAkcTfZFuzbxQ_TrLaLYO9nFKZnT2kZaJCt"
    "JImozNG8ToyatBAunUvkUlzMI4Ef3Z_b1f68WYZTd7aL95mhpndyd9lR-J5zhau06qP16n"
    "SPFy002Fb1yjOsCY9UruHjKB5SCc8WUP_rRXZfzDmGJg";
static const char TOKEN_ENTRA[] =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJhdWQiOiI2ZTc0M"
    "TcyYi1iZTU2LTQ4NDMtOWZmNC1lNjZhMzliYjEyZTMiLCJpc3MiOiJodHRwczovL2xvZ2l"
    "uLm1pY3Jvc29mdG9ubGluZS5jb20vNzJmOTg4YmYtODZmMS00MWFmLTkxYWItMmQ3Y2QwM"
    "TFkYjQ3L3YyLjAiLCJpYXQiOjE3OTUyMzAwMDAsIm5iZiI6MTc5NTIzMDAwMCwiZXhwIjo"
    "xNzk1MjMzNjAwLCJhenAiOiJjNDRiNDA4My0zYmIwLTQ5YzEtYjQ3ZC05NzRlNTNjYmRmM"
    "2MiLCJhenBhY3IiOiIxIiwibmFtZSI6IkFkYSIsIm9pZCI6IjY5MDIyMmJlLWZmMWEtNGQ"
    "1Ni1hYmQxLTdlNGY3ZDM4ZTQ3NCIsInByZWZlcnJlZF91c2VybmFtZSI6ImFkYUBleGFtc"
    "GxlLm9yZyIsInJoIjoiSSIsInJvbGVzIjpbIm51cnNlIl0sImdyb3VwcyI6WyJhYjYwM2M"
    "1Ni0wNjhhLTRhM2MtYjFmZi0xYTFjMGFiNWIxYzEiXSwic2NwIjoiYWNjZXNzX2FzX3VzZ"
    "XIiLCJzdWIiOiJIS1pwZmFIeVdhZGVPb3VZbGl0anJJLUtmZlRtMjIyWDVyclYzeERxZkt"
    "RIiwidGlkIjoiNzJmOTg4YmYtODZmMS00MWFmLTkxYWItMmQ3Y2QwMTFkYjQ3IiwidXRpI"
    "joiZnFpQnFYTFBqMGVRYTgyUy1JWUZBQSIsInZlciI6IjIuMCJ9.KOvzyhnqDR97mcktsR"
    "kQSHjYgwWObiQNRUxQ6TCI1xHcbjqJotNs2STXuHrEhHowSSaFmNuIWrnQ_p7szR7g-O0D"
    "nH0i_IpYB8aSkyxb5L8vpmPdy2BKJUYO5nbwsSDQXy1jcDZRUrnMo77xvfKQ0hDNJjTq0I"
    "8V3lPXmYRdCwdEgSrKX4VBlCCxixkVegwj4BiT8JNJsiLe9l3kY3_t5GJVMBQUx7AyLh89"
    "-Ifz7bNTllrrbM2FcRrveLGCliU4UUA8PKUz0rjCGydknSEAgilQYtsbz-YW9IKKdCXGWO"
    "o1IYd6M4hitxLHwMbg8CD5JmROhAkS1E2nAz-F96zvSA";
static const char TOKEN_OVERAGE[] =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJzdWIiOiJ1NDIiL"
    "CJleHAiOjE3OTUyMzA2MDAsIl9jbGFpbV9uYW1lcyI6eyJncm91cHMiOiJzcmMxIn0sIl9"
    "jbGFpbV9zb3VyY2VzIjp7InNyYzEiOnsiZW5kcG9pbnQiOiJodHRwczovL3gvIn19fQ.qo"
    "veuZjAXqgKXWIJwXmUwigspTEDBJrWJNERWBGbUJAzrO0u0QS3hQz48IpIjRalM66ZdwoV"
    "BKoA8nQ9bC2Ahb5lyVmxhd3qB1jJbFLlVWZcW3ij-hcSrWKGTjqRQFmE_JVWYCL5GgMMNn"
    "k40Oa6Row1Cx5d1ykpk_ehvQFvRDvdn9G1QgN3y942lbqDn7V72TiUgOQBwMHn9m0B-8xH"
    "yGeDyLT46OhWqPCtwYwHvpkOshZ-SXXSAhJ-rdj5oCO8-6Do9EG79ZKtuTC3QoITjSThna"
    "fAopovEHUzesD8tePe5pZo6x-mFSDuilVwBPc9O_JV1JVuO5M4yq242lbTdw";
static const char TOKEN_COGNITO[] =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJzdWIiOiJhYWFhY"
    "WFhYS1iYmJiLWNjY2MtZGRkZC1lZWVlZWVlZWVlZWUiLCJjb2duaXRvOmdyb3VwcyI6WyJ"
    "udXJzZSJdLCJ0b2tlbl91c2UiOiJhY2Nlc3MiLCJjbGllbnRfaWQiOiJ4eXoiLCJ2ZXJza"
    "W9uIjoyLCJpc3MiOiJodHRwczovL2NvZ25pdG8taWRwLmV1LXdlc3QtMS5hbWF6b25hd3M"
    "uY29tL2V1LXdlc3QtMV9leGFtcGxlIiwianRpIjoieCIsInNjb3BlIjoib3BlbmlkIiwid"
    "XNlcm5hbWUiOiJhZGEiLCJhdXRoX3RpbWUiOjE3OTUyMzAwMDAsImlhdCI6MTc5NTIzMDA"
    "wMCwiZXhwIjoxNzk1MjMzNjAwfQ.rT5T-pkhaqRZU8meK3_CWmA0Uw5syeXEAutNxAHwuR"
    "_bHd-sHZpTXIwe0yNwiPEanjtHACACS5J9Z_dYg4tSyi9z5hZD5t3H4qzzzpuahLh3XxjS"
    "bOqnP8DBw7I4Wmnw6tcoLNa_DhM07KDpS-ZSkRGm91u9uGtjWC3yejeK_k3Xk-w4fecybO"
    "4pmQmASRFZlcqjT3OaZY1AnOO2tzQoEGNvAICFAI2pUxKvPZHiEChE8EkKsmHaeOcK0vXo"
    "6FbDHNOQs6x_n9LbW2MBepeulM5pJY_5GdztCJVLIG6ZbhwkwfkYk_R2JdPhVoJGrJXUWZ"
    "IiDBipKcfevRo_d_lXSQ";
static const char TOKEN_ADMIN[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InAyNTYifQ.eyJzdWIiOiJ1NDI"
    "iLCJleHAiOjE3OTUyMzA2MDAsImlzcyI6Imh0dHBzOi8vc3NvLmV4YW1wbGUub3JnL3JlY"
    "Wxtcy9hcHAiLCJhdWQiOiJjbGFpcm9uIiwiYWRtaW4iOnRydWUsInB1Ymxpc2giOnRydWV"
    "9.U3WRWjiQGSVH2Xr_Dm4fZl3o3Cz5W6U9wYEioJ16YoXKXA_RAhQdmS7HQjBlFmhNaCB9"
    "Syk_QOFoikTAruVKOQ";
static const char TOKEN_CONTROLS[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InAyNTYifQ.eyJzdWIiOiJ1woV"
    "4IiwiZXhwIjoxNzk1MjMwNjAwfQ.H_-g85nWNQcMDCFJyS89uc0EzuijnAGKkPqzcoUa56"
    "khHWRW29bhibmoOx-QL4FkKl2lyTb5WvTe2_LhJSg5uA";
static const char TOKEN_FUTURE[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InAyNTYifQ.eyJzdWIiOiJ1NDI"
    "iLCJleHAiOjE3OTUyMzA2MDAsImlhdCI6MTc5NTIzMDAwNn0.1xYAA_GGfMHtXk7oSd48W"
    "ogVZGqpXT1xh0iw_HAh3N9MlGibu1b3zDG3CTe-oKtA0kfON55NEGzcRX8dwWK7ww";
/* clang-format on */

#endif
