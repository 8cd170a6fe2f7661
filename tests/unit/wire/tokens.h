/* tokens.h: keys and tokens of tests, printed by tokens.js. */
#ifndef CLAIRON_TESTS_TOKENS_H
#define CLAIRON_TESTS_TOKENS_H

/* clang-format off */
static const char JWKS[] =
    "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"xJb77SO4BDNLq0J1viSYR6Sb-HAW9l6lRLj1FfTh8dN"
    "n2klAG0cZygRvtuTabWDBdk31FUNtFz3z-yhasQmNazjnVeICFF48ndCyIzbW3nsuJWUyM"
    "PwL6B5Bj0q9JMF2ChAJMNgYBAZz43QMDXBmkddputUtlW-ntRUn4J9uPqMihrmrgmPK7GU"
    "OjReIgdmAZFq_bMS2L_hN3XcMsUJmzbbCk74so9Awklr7CBKWUt8dHtXGLK9Tz21cASMvu"
    "bT6YUDtwP2x2w1anyV5Z4FLHIMne0CaNjT2HQ5Rx4eHn1MIMaTuvZjc5E5ZXxRMzJcoiQl"
    "fbBPyieadMQGM9v2gAw\",\"e\":\"AQAB\",\"kid\":\"rsa\",\"use\":\"sig\"},{\"kty\":\"EC\",\""
    "x\":\"Pcc3QTzKsCJl3F5Krur1LiWrgwlcfu43v8DUyUiIWvU\",\"y\":\"y3002C13yCxcWSV2"
    "E08uCIOa9_mHyyhsJOnDcKKoq6w\",\"crv\":\"P-256\",\"kid\":\"p256\",\"key_ops\":[\"ve"
    "rify\"]},{\"kty\":\"EC\",\"x\":\"5uU7Pn5GEj4V55ZsYRkBtiqTOWEXIQu_bU8LVA4HLMWAa"
    "P8bFMsLlElabEMyHtgX\",\"y\":\"bMbICRREA7g4bmnb4sNKe0ntcdbm6GkPjHzAXlkbLEcE"
    "af24kBCaf0_EKgwE5kv_\",\"crv\":\"P-384\",\"kid\":\"p384\"},{\"crv\":\"Ed25519\",\"x\""
    ":\"2qwLnenZAJVpHrtrewcSgi0c_e3kOGgUEeIlqTpf-UM\",\"kty\":\"OKP\",\"kid\":\"ed25"
    "519\",\"use\":\"sig\",\"alg\":\"EdDSA\"},{\"kty\":\"RSA\",\"n\":\"u-ncbCVdkwzF8nXxFHUD"
    "5IZdOAUea5Bt_egMvxX8sJvFcWWqB4h-5wxM2A8TQ3L1Aj5pEgAzS1MzHW39bxkLtJq3vU"
    "S5Yp6ZCrcckuBwHs3qrPjzPuHFONxhFaspa6v9PMn3A-oCKit4PYJwYqjqCHrQgYpulwmK"
    "meN_L3taPe8\",\"e\":\"AQAB\",\"kid\":\"short\"},{\"kty\":\"RSA\",\"n\":\"sd6Cle15vjm5w"
    "GHZuI1MxI1MdI5lZTe4vh57XaXx7hvds2HL04EBlWAiqrZMy1HsB4V4Rv53pcpdlhTCzBO"
    "EoTSzAYQWLUOCfAHsxm7O8S9tVb2BYyvyM6DqtziGKawfrI1CCdm6AijW9dh_kyFshRUm7"
    "5lOdTVZUzxRSIfUe99rIqWSvWPq3xCPn9r8CpXnVXFrXgfCSn2u0he3bu5S9lPiRF2v_xX"
    "U9RSm1C0kMGhXGL6g2yalEz51gdTK1ePrwvJC-Acg9n4oUMRjmbblzO35boxERnk71YFqC"
    "21897Fe8DuE8uAtDmD6xGAKOjUzmJisoPf0KPENV9yiuM7ERw\",\"e\":\"AQAB\",\"kid\":\"e"
    "ncryption\",\"use\":\"enc\"},{\"kty\":\"RSA\",\"n\":\"wtCbnlOQ929Ny6k13l79crqb9-In"
    "E8hVkVBzAN0N7VvXCEetWimdLmfoOW3Lh-sxorU_GuTlJ0xAhcQ98Xa4SWMWtNvvP1tNHi"
    "6FyE-oH9ofBnELaBbEsyou9r3jgpRuEZJHOWukqHE4wFQ5YAg93EFD7ErOCpLhBvm08dHA"
    "TGoh76m8YU2No8BD0_UwQ6ClCV8jqw7hs9eeyYqG_4tZs_943Fopq7HwKiHt2zWOhokI8g"
    "BWG0jSo_aaJQKc17HRDXwkcAGXOP1wFis3xpCNBaLyYsiF1f8UjLD9Z8h0zcPk3YJVclGe"
    "IYDSmxEswXZT2ywY-DfRCTOJUaDgKCdKew\",\"e\":\"AQAB\",\"kid\":\"pss\",\"alg\":\"PS25"
    "6\"},{\"kty\":\"oct\",\"kid\":\"oct\",\"k\":\"dRZ-AjuHvmQSTlXs7KWiW9bclT59sahC-8wN"
    "ZrlATJc\",\"alg\":\"HS256\"},{\"kty\":\"EC\",\"crv\":\"P-521\",\"kid\":\"p521\",\"x\":\"AA"
    "\",\"y\":\"AA\"},{\"kty\":\"new\",\"kid\":\"new\"},7]}";
static const char JWKS_OF_TWO[] =
    "{\"keys\":[{\"kty\":\"EC\",\"x\":\"Pcc3QTzKsCJl3F5Krur1LiWrgwlcfu43v8DUyUiIWvU\""
    ",\"y\":\"y3002C13yCxcWSV2E08uCIOa9_mHyyhsJOnDcKKoq6w\",\"crv\":\"P-256\",\"kid\""
    ":\"p256\",\"key_ops\":[\"verify\"]},{\"kty\":\"EC\",\"x\":\"5uU7Pn5GEj4V55ZsYRkBtiq"
    "TOWEXIQu_bU8LVA4HLMWAaP8bFMsLlElabEMyHtgX\",\"y\":\"bMbICRREA7g4bmnb4sNKe0"
    "ntcdbm6GkPjHzAXlkbLEcEaf24kBCaf0_EKgwE5kv_\",\"crv\":\"P-384\",\"kid\":\"p384\""
    "}]}";
static const char TOKEN_RS256[] =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJzdWIiOiJ1NDIiL"
    "CJleHAiOjE3OTUyMzA2MDB9.od-0-AH597yVSVpONgpq9HL7vhxgRnri9MwIxKZ6a2u_4_"
    "80zl0uaVcGB2u5biMW775k_aRiZGCdZGyGxLU0gFjZAk1Zt6KjhDUYv6vxQFufRoaFV5Mv"
    "ceJ2M_j853MwguJZNj_jMNnQx3P8CuAaGbkWmz0ogQP_i9TEgs89sFrOodW8YQs6zg5uV5"
    "MIM22OXeydF53_hSBUcME7BhwBh7lYXiAX3Vk64Fnw7k53b5qDYcTYg8KVxT9ybeJkzbEf"
    "f--tkV3kIBBu65BiEIl3hAOnhGirQWed_pnqTVvS-8BT18Kt8KyyGXkqU4bc7IxJaMIcpd"
    "h05c1S3G8OymjJ5A";
static const char TOKEN_RS384[] =
    "eyJhbGciOiJSUzM4NCIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJzdWIiOiJ1NDIiL"
    "CJleHAiOjE3OTUyMzA2MDB9.wA1RZYUa4ikyl6uN-xjUUu2Vrk3lPf4q5AOrtN33C4H3sX"
    "_jynx-mWyg2HB700ICVZLa-HCvpYgJTpxZXibqTOIoyKtquI_S8ecYdlkxkwoElAyMzxSJ"
    "cAO3Qpm1IcDKvjFCnvwA1fE_N1rwGcnVwJqCMKJuH7QJdkg6z1ju3pJTF7EEfwsI_j_O6Z"
    "wDjXFZQxu7SgCTije42p1NLY3MLMqQBsR0HOr-j5Dr2fM7jucnKu1vsqtnynr3lrHtHqDv"
    "TkQux1_oN0HUUQivuV49q7PwpDiSOpsb0LMKyIH5skknQNnSG7lPY3Cu8wIztT0q5WDuMV"
    "ZHYh_Iip5d1A8UKQ";
static const char TOKEN_RS512[] =
    "eyJhbGciOiJSUzUxMiIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJzdWIiOiJ1NDIiL"
    "CJleHAiOjE3OTUyMzA2MDB9.Zx_Qq9gdNFNjxzNmMMZajolu6tfI9BlU36LJiL8EpPtPSX"
    "_smY7f0Mi4OTjPfw3clolknBMf7B2ADFfyw9WNqT9w-LpISW9V0ILvFthPNFbeuOK4qy6i"
    "hVOFIjRAQRHriLCQ45beQqsDOdpsEPW7qq8DMS3o4bWPc3RBkdUH74d29wQ7_1nl9ELMOm"
    "KOSf7ND6ENa5pKcMblNBKzcGa1MLVf0WYqeJE_DvKn2_35UhsugxO_54mQdNYMmUVYnNva"
    "A3lIyfUVfbm6_2HUXDjT-WMUPSvaTscANj1JODZvmJLGM3FuNivGbIrgAV6O9j_x-V23_T"
    "yEkof14d7o8jZlGQ";
static const char TOKEN_PS256[] =
    "eyJhbGciOiJQUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJzdWIiOiJ1NDIiL"
    "CJleHAiOjE3OTUyMzA2MDB9.lbOcaUJsZ3xeoXcCriQxd1QeMuCHQgVXqEk9byOkHhMJ2U"
    "vnpx39APp0Ctk0OiJOevZ8DAM3BrJF6GTyv30Z42K_WyvZhA9aHy1d6xeilZUqNlr8oXRB"
    "WoJg3twqKrGpFgV77hs7c-N9aNZbEEJOqvLNE0biod5BbjLE4XxUpzEW3AiwShBksedVQB"
    "P-uofeaU96FUmvY_dBYnQpa7h37jYB988R_G9-ZzyHIkwexSGat-rYlReTHl7GW41BfDaO"
    "zVf0bJNE0SIokwQ1HZEn_S1u29XcwEXTgZ5gfGlFPO1i502kAaYcp_-V0mOpZnoIOlwoOA"
    "2efR7ILc2Z4ayx8Q";
static const char TOKEN_PS384[] =
    "eyJhbGciOiJQUzM4NCIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJzdWIiOiJ1NDIiL"
    "CJleHAiOjE3OTUyMzA2MDB9.SXJwoTHytveY-zdHxpxzwGX7AfbvFNltfhWCmeHDlyMxuC"
    "IDlkqf1vAgjWoU5pwSYS9pqScSfJluP0ephNy9gkTLZ8-J30_5G1BN93ExZSve3UJ4EIdn"
    "yXkRmU8E5G1A_WOwkU6o9nik8KGicwxBmY1hna9N5B6AO4tsE8bUBH0T0XmvVNObGeeeS_"
    "jDz9OhG0YGEI7LnxzBTh6LBdYJ9cBOMm0KDnQoxh1lwUyrQicjOjXzyNLvFo2HsCUwk5dI"
    "k-WSbWt4f5Ff2wNSOoqw5VALptLxuXA82CoZX6xJaVDettHLLsr9tpMN8qmv5S35lSXgBE"
    "GzHJUMLaaXKwq8Aw";
static const char TOKEN_PS512[] =
    "eyJhbGciOiJQUzUxMiIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJzdWIiOiJ1NDIiL"
    "CJleHAiOjE3OTUyMzA2MDB9.LjfaHfZpowlmy-D5WMEqZ4cRhlU7IahGTYGVmSrf4va5Im"
    "DXGDxriRMW4B6t9z_rcjSCICsWN8yhtiqtUNjQJimk_b5vyGgaZL1mVT2AgF0uZ10x-tWe"
    "4Hwh54mlQTMc_D4Me5CKzKC2_LgmwaAbWNAQiD8NwzG3V2ksAOHInkhC7Di0kAkfzQ9Rah"
    "7-fxAi_AYLGblmcEdjCCFmq4zAfigIEunTg5r4O2ZI4IdqU3-8keEXO1vTmEBrq_iDCMQ5"
    "rtQmdSMVZkgTyVNaMjtVR1W_HcrogHDf_Ory5zBakfHo06e3heENi_3GEscx-nj2dwRz-D"
    "cUAZuqA-AvY3pQpg";
static const char TOKEN_ES256[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InAyNTYifQ.eyJzdWIiOiJ1NDI"
    "iLCJleHAiOjE3OTUyMzA2MDB9.KKdXrb8sIr2jbIw8phC0Ui4gBcwdSm7Q2BkPvV03UlxC"
    "SXpVJ8xC1iC4nH-mrXN7-dx2UbXrGhgkPvBWociecA";
static const char TOKEN_ES384[] =
    "eyJhbGciOiJFUzM4NCIsInR5cCI6IkpXVCIsImtpZCI6InAzODQifQ.eyJzdWIiOiJ1NDI"
    "iLCJleHAiOjE3OTUyMzA2MDB9.IdRpMI9iTPw4NxOdEhfAzkWahEzdoyEJNyy4rh-wAtWX"
    "J111F5m_Vfx6C-ojINb59yalzi34T-kPiUj1W5H5R4sJsKZyMXYeldWxL9Vbd1n3OkPDb6"
    "eVoYH6rYFtnEiY";
static const char TOKEN_EDDSA[] =
    "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCIsImtpZCI6ImVkMjU1MTkifQ.eyJzdWIiOiJ"
    "1NDIiLCJleHAiOjE3OTUyMzA2MDB9.N82n4IfRdlN06oZfumlRRwaJqFlvbSrosON0Lvqv"
    "jsctSJgxggXrz65kGF6TNuCJSeplBeNbcX-2o9Eg7lASAg";
static const char TOKEN_HS256[] =
    "eyJhbGciOiJIUzI1NiIsImtpZCI6Im9jdCJ9.eyJzdWIiOiJ1NDIiLCJleHAiOjE3OTUyM"
    "zA2MDB9.mZJiVByRw9tXDmr54OgLx5RhxUcdjpGtodfKWwBj--g";
static const char TOKEN_NO_KID[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ1NDIiLCJleHAiOjE3OTUyM"
    "zA2MDB9.ujNuXrGSQqji8jd0u-JiWNSHmcASbzpfNhpCnTfYWckFUP0M55982fPTcel5CF"
    "d4TPf6HmHZQuk6JMhjRZCK5g";
static const char TOKEN_NO_KID_RSA[] =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ1NDIiLCJleHAiOjE3OTUyM"
    "zA2MDB9.cmkbQSjwhNkDOfZrp_8q2U-tZOd4ud059Mhtx2CmwiEj_kuaM-SDH65PdUU_hV"
    "R2oScJpB5Q09UxuDg7StwrCGugoyIbALgU65Rt_2gskZycrPlJuzwoF3ZKQFAB20I2-EX_"
    "DY3dcaXSPtgug3tGr-Lj4ctDA36AMf1YjiMahDb9HhkXdeL8mZ3oC9bdlW7r4KDsdY36KY"
    "7YcAMD0fDSlNgDk2x_7DsLc0HoQ56oPr-FBpI8O5lknUcig9uXbQGCBGNrVkayd8ZlX1WF"
    "AMe4fp4qh0Fyym6rEfPc-A52UsUdhpaZ_c_SzPbIhCdBiF7IEdAyYziMDGB7m4ZOmMFUKw";
static const char TOKEN_OTHER_KID[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InAzODQifQ.eyJzdWIiOiJ1NDI"
    "iLCJleHAiOjE3OTUyMzA2MDB9.0Hzr_8rUk_pWl7Sa9YX4UEz-ObEo_JpTAocLDxeNEqcY"
    "lVD5KHXIreHtpNOo5YlHfNENPoFOML0pflsExnE1LA";
static const char TOKEN_UNKNOWN_KID[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6Im5leHQifQ.eyJzdWIiOiJ1NDI"
    "iLCJleHAiOjE3OTUyMzA2MDB9.WXTeECIpUeo9emPYLej93E-5tZ4Ux3rrTyJj50SpoUUF"
    "z6kvwLOl7yJBMTEP6Uy3cAgbxb14i_t1tJk5OVIotw";
static const char TOKEN_NUMBER_KID[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6N30.eyJzdWIiOiJ1NDIiLCJleH"
    "AiOjE3OTUyMzA2MDB9.3C_om_yGM7VmrlOAUij1cCwH6wSV3GLSXQ3F2rv1brBGCvZeQUJ"
    "Ybl4sWsqi-pT7zLNz6j3S42-l8tJUkmb8cw";
static const char TOKEN_SHORT[] =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InNob3J0In0.eyJzdWIiOiJ1ND"
    "IiLCJleHAiOjE3OTUyMzA2MDB9.paX-sOW7BJ3w0C_MToqfTC9fNB85aYwHGs1MIOVZBqN"
    "VNCeIbTXrSeOM_6bkJVllXOdny1DKnW3DHD0hPQjnIq43EH6jndkeP_jyBb2WV_v6MJU7Z"
    "nrITMkr0CYQlr5HzGyv5HUWrGfT0-vtzvPtkvXCSQKF6f5ttlS50ibHmvw";
static const char TOKEN_ENCRYPTION[] =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6ImVuY3J5cHRpb24ifQ.eyJzdWI"
    "iOiJ1NDIiLCJleHAiOjE3OTUyMzA2MDB9.dLXBjlIu5Bw3dFOwf86sOccFAoU2jTbkJfRd"
    "RAYr3jwbOu4VshtlcefSY6iZgkgs8L8kyVa448-D_lEEKuuzwyT_d_AKD6n2Sr3XqLlvP7"
    "KB1ACxCjxE9WkJMtVS6KRK2kTUslpB_WDouw54uTJMChGnVfvVmRz-b-TNzI9Zmt6G4G8O"
    "ZWzh3s0ZhkacReGdskx13KICm4bOg4MXq9C3q8N2gymWQFCS3PAJ4Xv0vpq4mnskvw7B6l"
    "xegU_-MZXHyb2BshyXACb1b78oXazFp7AA3xIJIPM4xf9p4Qjsimp37PkMhaeeZYM9kjh9"
    "3684N2zEKpbYs1x7RjFfpuiEfw";
static const char TOKEN_PSS_KEY_RS256[] =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InBzcyJ9.eyJzdWIiOiJ1NDIiL"
    "CJleHAiOjE3OTUyMzA2MDB9.BEtSxnjeQy-R4ty_oLTggyRX8MNv7IIZ_hI0XSdr-oGej0"
    "fTDRHxh--1hbVIDONg4o-FNanDXyUPWvNMYamUd0L0C6z94oHfBR1PFlPCWJnhJmncJPcI"
    "ImHFIeWF2xjAhNPcfsPhLm955fwLCb06X54-a8kPl9yUuNU6Y9k9LqyXNZ8vk3qQ07uZNg"
    "kcBkz33xptdP5hLx8ffBZaEDPN_QRvb3E-uRrxy82qOPhSCDRrTh8hEv69y6Lvi66tIF-1"
    "H2veUt7201pOyimsU_NT6rjiqPn_7mF5sx1ZsW3lZZZm9ktyTnXdubG71GGQIZNqR37lFW"
    "eQLAnLseADrMjQwA";
static const char TOKEN_PSS_KEY_PS256[] =
    "eyJhbGciOiJQUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InBzcyJ9.eyJzdWIiOiJ1NDIiL"
    "CJleHAiOjE3OTUyMzA2MDB9.WwlgBYRQCXpaRNWgNhafpvIWF6yYuEEwa36rffgDMT-iwr"
    "xEhy1PsTNbvT856t8lUHL1enXgE4BLn-KxmGookeJdl3Z4cbIKAzBHtnTdtjvF6I4cJ6c8"
    "j0lK0mCi8YEeRSVwMS3kSvyBpBTfOGHnFSvOpnQrh2iuJaNvHdyum21S5rucV0a7TjN926"
    "zCi21vOhQQIs-aVGMCZx6kzjpxSeSS2MxqAa8htVKiWhcGimdCCooenjD-p-H_SkHvAEpB"
    "PnjUTRnLN_SvrvciDcug1I36vUmh7S4RdF7Y1Vi1F6j8d-a0ThxlN8nNK27lld-55cEYhl"
    "M5_42nRC-Nym9kTQ";
static const char TOKEN_CRIT[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InAyNTYiLCJjcml0IjpbImV4cC"
    "JdfQ.eyJzdWIiOiJ1NDIiLCJleHAiOjE3OTUyMzA2MDB9.SnTu6ABgX4ZTXdItmu_88LgL"
    "_tYPFtcvCEpvOYxhoVZ2GiCyZjIo4J_O0DpHZhpmvqYK3kMQg5WXwBccnBY2RA";
static const char TOKEN_EMBEDDED[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InAyNTYiLCJqd2siOnsia3R5Ij"
    "oiRUMiLCJ4IjoidDBiYTZUSXhzYWphSTBCVnJTVFJNb1Zja1hOeVN5cWt2ZW9Ec2pxVHNs"
    "MCIsInkiOiJuMnlSZlhWQkR5ZDZZdVJtNkdlb1pzR2FfTEdObXlVZE0zbk5IbUFsRms4Ii"
    "wiY3J2IjoiUC0yNTYifSwiamt1IjoiaHR0cDovLzEyNy4wLjAuMToxL2p3a3MiLCJ4NXUi"
    "OiJodHRwOi8vMTI3LjAuMC4xOjEvIiwieDVjIjpbIkFBPT0iXX0.eyJzdWIiOiJ1NDIiLC"
    "JleHAiOjE3OTUyMzA2MDB9.G6wmaSGLQe5lsLQp2aqiO6HWbmizXtN3hH5nRjAqXBKPNsZ"
    "FFrK7xc7NojSP_8aoUtdu0D9nItEt4Fwx4LgXqw";
static const char TOKEN_NONE[] =
    "eyJhbGciOiJub25lIiwia2lkIjoicDI1NiJ9.eyJzdWIiOiJ1NDIiLCJleHAiOjE3OTUyM"
    "zA2MDB9.AA";
static const char TOKEN_CONFUSED[] =
    "eyJhbGciOiJIUzI1NiIsImtpZCI6InJzYSJ9.eyJzdWIiOiJ1NDIiLCJleHAiOjE3OTUyM"
    "zA2MDB9.txASqBdKvvNKUsuNoX1IaEAQcH1y0LUCL5-RSUCr__o";
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
    "9.cu8caqkk5OIkDwh-iVUjdh6DBE681klKvmjcmOdgIZIc_f5Ezw1FLYeO16-tIBEbIJgo"
    "tVJZE_jdWlpp3C0pCm59IW7vkcieGrnqMZCyR2BakTdLyD3aktrYYn-zpY64eNDGXsUsb4"
    "J5bjGSW3BaEeDupdL-uKgC8QW1v880oFnwcus91h9lFQWpEhefCmmAMcWBWOjpLIStA0Mr"
    "Oaz9WHdfOjorMIO3Mc3k8nbrE6-MiBh8CfWmgXsm3mr7dmI5JgHE1C3TOfdhsUDfE8QtOj"
    "L8ToaoarFcbZKn27jlzqE5JpoeFtI-6-kSTtiRfOnWqr3SpgnHzr10C0eQ8ZUbHA";
static const char TOKEN_AUTH0[] =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6ImF0K2p3dCIsImtpZCI6InJzYSJ9.eyJodHRwczovL"
    "2FwcC5leGFtcGxlLm9yZy9yb2xlcyI6WyJudXJzZSJdLCJpc3MiOiJodHRwczovL3RlbmF"
    "udC5ldS5hdXRoMC5jb20vIiwic3ViIjoiYXV0aDB8NWY3YzhlYzdjMzNjNmMwMDRiYmFmZ"
    "TgyIiwiYXVkIjpbImh0dHBzOi8vY2xhaXJvbi5leGFtcGxlLm9yZyIsImh0dHBzOi8vdGV"
    "uYW50LmV1LmF1dGgwLmNvbS91c2VyaW5mbyJdLCJpYXQiOjE3OTUyMzAwMDAsImV4cCI6M"
    "Tc5NTMxNjQwMCwiYXpwIjoibXlfY2xpZW50X2lkIiwic2NvcGUiOiJvcGVuaWQgcHJvZml"
    "sZSBlbWFpbCIsInBlcm1pc3Npb25zIjpbInJlYWQ6cm93cyJdfQ.US4AFVgWI0TrmFjmcF"
    "zUg_LhX_GkklANOSmlY9leeavu1CrJ31hBrsNdhFDN5e8EYxzxfPE3wpzazN4GwzzvnVTZ"
    "vuGke_-wENZSG_iXLjqOCHV2YYYGFmAWJ5Jwq4d6GIbmRvtUMaJ04XEmAPQC86aqPGYgZW"
    "tMdkGQsv2YhB9i3twMBw2AlmWf5tgPQy7FrLwq52K7Oem2uhDl8DGW9SRmHJyR1C5wqeK0"
    "FvJUUrALeJ84FOrTG1i5JY2KkcwipQXYKKgsZs3MZBeot3YsEesCxisdSTQJSZyEuheR0b"
    "NkRlOpvxeF9giJ6B1DztehBDkr5hGCh_J_Iq5JH4jCLQ";
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
    "joiZnFpQnFYTFBqMGVRYTgyUy1JWUZBQSIsInZlciI6IjIuMCJ9.ZIv7gXG1M7dPe2g_eH"
    "NMQAN8DX-tnzHqHP1gJFsiH1U7ulkxXUkbvtQrR0TrABCZhHR0PPu0eQ_mP0XfYjDSiaOz"
    "0FeXcO3YLOp6Oqd5TfrG_gssfLxm2EycAvceO3LU9FbmUQUHwoYxMGE13MOzwngRs49zYO"
    "VEUQQfOLEo1GBivqgsWQpg9XN6n8PTXffEzuCtl894YtJn-hy2EkxOI2ar3CbHEmjWDGXd"
    "YX6RRAPnGyFVnfA9fuWplcd_l2NWbmlF9as6sdUcS0bqz-KMIRcZBbcOW7siWsTU5eSVTj"
    "69ziWjJKpx9fagZFqK7GEjfU-jQy0zSl8Jr6YrnKIZKA";
static const char TOKEN_COGNITO[] =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJzdWIiOiJhYWFhY"
    "WFhYS1iYmJiLWNjY2MtZGRkZC1lZWVlZWVlZWVlZWUiLCJjb2duaXRvOmdyb3VwcyI6WyJ"
    "udXJzZSJdLCJ0b2tlbl91c2UiOiJhY2Nlc3MiLCJjbGllbnRfaWQiOiJ4eXoiLCJ2ZXJza"
    "W9uIjoyLCJpc3MiOiJodHRwczovL2NvZ25pdG8taWRwLmV1LXdlc3QtMS5hbWF6b25hd3M"
    "uY29tL2V1LXdlc3QtMV9leGFtcGxlIiwianRpIjoieCIsInNjb3BlIjoib3BlbmlkIiwid"
    "XNlcm5hbWUiOiJhZGEiLCJhdXRoX3RpbWUiOjE3OTUyMzAwMDAsImlhdCI6MTc5NTIzMDA"
    "wMCwiZXhwIjoxNzk1MjMzNjAwfQ.VtX3XPG_RPrcK3qGLrlEOn_N3DP0RaPPzPAZAUDcrY"
    "cp7rozb_KArFVVKyALWt2nUGQ27jKqVP482J7fXi8llfhRTYmCtuQ2T36KwsPhA6yYV8fv"
    "qgGzKyqQHjewjlALpTIRQApLwcsjI8E5e-FUwx3m6K8QMXUU1CbUad4H-eDow7TkQTM8_1"
    "SsOsOIizEk9QUkrEe7t7H0cZGG5Wzc6gjcljHy0xR4OTIRsxKnMJRuUu6qPNtWBZatEnKU"
    "Fa_zqYcBU7JaBzSKB5Q2vW-vRFHVSu_JLyZJ--yoUQhIuCoPixtIuS-PMdK-Pr8diGvoAC"
    "aneAMXhiggNrpZjwj_9Q";
static const char TOKEN_ADMIN[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InAyNTYifQ.eyJzdWIiOiJ1NDI"
    "iLCJleHAiOjE3OTUyMzA2MDAsImlzcyI6Imh0dHBzOi8vc3NvLmV4YW1wbGUub3JnL3JlY"
    "Wxtcy9hcHAiLCJhdWQiOiJjbGFpcm9uIiwiYWRtaW4iOnRydWUsInB1Ymxpc2giOnRydWV"
    "9.VQqMN6LL454nmt7-LdxlCOhJMX_lXe6vYeU9O2qyw2GLy5VhCo4R6pI-R7GXBtBIcAb7"
    "ksBPowvTr4lySHaJ_Q";
static const char TOKEN_CONTROLS[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InAyNTYifQ.eyJzdWIiOiJ1woV"
    "4IiwiZXhwIjoxNzk1MjMwNjAwfQ.SNLby2KY6A6gIhLFXD5Z-MidsxpiFNqsjmXuN3MD6e"
    "HhgF2MNm-5xtArTQgQEE46sUELjFd7lTQJ35cRKDcMeg";
static const char TOKEN_FUTURE[] =
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InAyNTYifQ.eyJzdWIiOiJ1NDI"
    "iLCJleHAiOjE3OTUyMzA2MDAsImlhdCI6MTc5NTIzMDAwNn0.vZL3THpv_XROdHgt6A2s3"
    "PSCuHWmtqaheWFxTuH_5fvB4xvY_3jUOdUxymmQ3JSmfRNxgaI-uYMhI-_jWH7QLg";
/* clang-format on */

#endif
