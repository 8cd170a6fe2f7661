# Tests that commands suggest the nearest valid word, and report the default settings that they use without -c.
use strict;
use warnings;

use Clairon::Test;
use Test::More;

my $clairon = Clairon::Test::program();
delete @ENV{ grep { /^CLAIRON_(?:FEED|STORE|GATE|AUTH|DELIVERY|ROWS|RELAY)_/ } keys %ENV };

sub clairon
{
    my ($out, $err) = ('', '');
    PostgreSQL::Test::Utils::run_log([ $clairon, @_ ], '>', \$out, '2>', \$err);
    return ($? >> 8, $out, $err);
}

for my $case ([ [ 'eror', 'list' ], qr/unknown command "eror", valid are relay, .*; did you mean errors\?$/ ],
    [ ['docter'], qr/did you mean doctor\?$/ ],
    [ [ 'errors', 'lst' ], qr/expected list, redrive or drop, not lst; did you mean list\?$/ ],
    [ [ 'errors', 'list', '--jsn' ], qr/unknown argument --jsn; did you mean --json\?/ ],
    [ [ 'trace', '--jsno', 'x' ], qr/unknown argument --jsno; did you mean --json\?/ ],
    [ [ 'token', '--subs=u1' ], qr/unknown argument --subs=u1; did you mean --sub\?/ ],
    [ [ 'trace', '123' ], qr/^clairon trace: invalid notification id, must be a UUID: 123$/ ],
    [ ['trace'], qr/expected a notification id, a UUID$/ ],
    [ [ 'errors' ], qr/expected list, redrive or drop$/ ])
{
    my ($code, undef, $err) = clairon(@{ $case->[0] });
    is($code, 2, "@{ $case->[0] } exits with 2");
    like($err, $case->[1], "@{ $case->[0] } prints a hint");
}
my (undef, undef, $err) = clairon('dance');
unlike($err, qr/did you mean/, 'an unknown word without a similar valid word has no suggestion');
unlike((clairon('errors', 'list', '-x'))[2], qr/did you mean/, 'an unknown option of one letter has no suggestion');

# Commands without -c report their defaults.
for my $command ('relay', 'doctor')
{
    (undef, undef, $err) = clairon($command);
    like($err, qr/^clairon $command: missing setting \[feed\] conninfo.*; no -c FILE: settings come from arguments, CLAIRON_\* variables and defaults$/s,
        "$command without -c reports that no file was read");
}
like((clairon('token', '--sub', 'u1'))[2], qr/missing setting \[auth\].*; no -c FILE/s, 'token without -c reports that no file was read');
(undef, undef, $err) = clairon('errors', 'list');
like($err, qr{^clairon errors: no -c FILE: reading the default store, redis://127\.0\.0\.1:6379$}m, 'the default store is reported');
unlike((clairon('errors', 'list', '--store.url=unix:///nonexistent'))[2], qr/default/, 'a store given as an argument is not reported as the default');
my $file = Clairon::Test::scratch() . '/relay.conf';
PostgreSQL::Test::Utils::append_to_file($file, "[feed]\nslot = clairon\n");
unlike((clairon('relay', '-c', $file))[2], qr/no -c/, 'a command with -c prints no message about the store');

done_testing();
