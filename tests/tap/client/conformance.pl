# Tests that the relay passes the conformance scenarios of client/conformance, and that the Python client of
# client/examples does. What both send matches the documents of the relay.
use strict;
use warnings;

use Clairon::Test qw(top token wait_until);
use IPC::Run ();
use JSON ();
use Test::More;

my $play = top() . '/client/conformance/play.py';
my $pg   = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', PostgreSQL::Test::Utils::slurp_file(top() . '/client/conformance/setup.sql'));
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'delivery.backoff_base' => '100ms', 'delivery.ack_timeout' => '3s' });

my %file = map { $_ => Clairon::Test::scratch() . "/$_" } 'records', 'openapi', 'asyncapi';
for my $name ('openapi', 'asyncapi') { $relay->write_file($file{$name}, ($relay->get("/v1/$name.json"))[1]) }
local $ENV{CLAIRON_RECORD} = $file{records};

# Reports each scenario as a test. At least `$least` must not be skipped.
sub play
{
    my ($what, $least, @arguments) = @_;
    my $played = 0;
    IPC::Run::run([ '/usr/bin/python3', $play, @arguments ], '<', \undef, '>', \my $out, '2>', \my $err);
    my $status = $? >> 8;
    while ($out =~ /^(not )?ok \d+ - (.*)\n((?:# .*\n)*)/mg)
    {
        my ($failed, $name, $why) = ($1, $2, $3);
        next if $name =~ / # SKIP /;
        $played++;
        ok(!$failed, "$what: $name") or diag($why);
    }
    is($status, 0, "$what: all scenarios pass") or diag($err);
    cmp_ok($played, '>=', $least, "$what: scenarios are played");
    return;
}

{
    local $ENV{CLAIRON_SECRET}   = $Clairon::Test::SECRET;
    local $ENV{CLAIRON_DATABASE} = $pg->connstr('postgres');
    play('relay', 35, 'relay', $relay->url);
}

{
    local $ENV{CLAIRON_CLIENT} = 'conditions';
    play('Python client', 35, 'client', '--', '/usr/bin/python3', top() . '/client/examples/client_driver.py');
}

my $report = qx{/usr/bin/python3 '@{[top()]}/tests/tools/validate.py' '$file{openapi}' '$file{asyncapi}' <'$file{records}' 2>&1};
is(join("\n", grep { !/^seen / } split /\n/, $report), '', 'what relay and client sent matches the documents');
like($report, qr/^seen client ack$/m, 'their frames were recorded');

# The Python client against the relay.
$pg->safe_psql('postgres', q{INSERT INTO conformance_tasks VALUES (1, 'u1', 'one', 1), (2, 'u1', 'two', 2)});
my $out = '';
my $client = IPC::Run::start([ '/usr/bin/python3', '-u', top() . '/client/examples/client.py', $relay->url('/v1/ws') =~ s/^http/ws/r,
    token(sub => 'u1'), 'conformance_tasks' ], '<', \undef, '>', \$out, '2>', \my $states);
my $last = sub { $client->pump_nb; my ($rows) = reverse split /\n/, $out; return join ' ', sort map { $_->{title} } @{ JSON::decode_json($rows // '[]') } };
wait_until('the Python client has the rows', sub { $last->() eq 'one two' });
$pg->safe_psql('postgres', q{BEGIN; DELETE FROM conformance_tasks WHERE id = 1; UPDATE conformance_tasks SET title = 'zwei'; COMMIT});
wait_until('it follows their changes', sub { $last->() eq 'zwei' });
$relay->restart;
$pg->safe_psql('postgres', q{INSERT INTO conformance_tasks VALUES (3, 'u1', 'drei', 3)});
wait_until('it follows them after a restart of the relay', sub { $last->() eq 'drei zwei' });
pass('the Python client keeps a list equal to the table, over a restart of the relay');
$client->kill_kill;

done_testing();
