# Tests that the doctor reports why receipts cannot be inserted, sinks without a relay that serves them, and what such a
# relay logs at its start.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Doctor qw(doctor finds repaired);
use Clairon::Test::Receipts;
use JSON ();
use Test::More;

my $pg       = Clairon::Test::postgresql('main');
my $store    = Clairon::Test::store();
my $receipts = Clairon::Test::Receipts->new($pg, $store);
my $relay    = $Clairon::Test::Doctor::relay = Clairon::Test::relay($pg, $store, conf => { 'receipts.sql' => 'true' });
sub sql { return $pg->safe_psql('postgres', $_[0]) }

$receipts->add({});
$receipts->wait_all;
my (undef, $out) = doctor();
like($out, qr/^ok +sink +primary: receipts can be written$/m, 'the primary is checked');
like($out, qr/^ok +sink +table: clairon.receipt can be written$/m, 'the table is checked');
like($out, qr/^ok +store +receipts: a relay reads those of the sink sql$/m, 'the group is checked');

finds('a server without the extension', 'sink: table', qr/does not exist/, qr/extension clairon/, '--receipts.conninfo=' . $pg->connstr('template1') . ' user=relay');
sql('REVOKE INSERT ON clairon.receipt FROM clairon_relay');
finds('a missing privilege', 'sink: table', qr/rejects inserts/, qr/GRANT clairon_relay/);
sql('GRANT INSERT ON clairon.receipt TO clairon_relay; ALTER ROLE relay SET default_transaction_read_only = on');
finds('a read-only server', 'sink: primary', qr/read-only/, qr/must name the primary/);
sql('ALTER ROLE relay RESET default_transaction_read_only');
finds('a server that is away', 'sink: connection', qr/^(?!.*\t).*(No such file|refused)/, qr/^Start PostgreSQL/, '--receipts.conninfo=host=/nonexistent dbname=postgres');

# The sink is switched off.
$relay->configure('receipts.sql' => undef);
$relay->restart;
my ($field) = grep { /^seen:sql:/ } @{ $store->execute('HKEYS', $store->shared('sinks')) };
$store->execute('HSET', $store->shared('sinks'), $field, 1);
(undef, $out) = doctor();
like($out, qr/^WARN +store +receipts: no relay reads those of the sink sql\n +hint: .*XGROUP DESTROY$/m, 'a group that nothing reads is reported');
unlike($out, qr/^\w+ +sink /m, 'a sink that is off is not checked');

# A sink is set, but no relay has the role.
my $secret = Clairon::Test::scratch() . '/secret';
Clairon::Test::Relay->write_file($secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
chmod 0600, $secret;
my %webhook = ('webhook.url' => 'https://hook.invalid/', 'webhook.secret_file' => $secret);
(undef, $out) = doctor(map { "--$_=$webhook{$_}" } sort keys %webhook);
like($out, qr/^WARN +store +receipts: no relay reads those of the sink webhook\n +hint: Start a relay with the role sink and this setting$/m,
    'a sink that no relay has ever served is reported');
$relay->configure('relay.roles' => 'feed,gate', %webhook);
$relay->restart;
like($relay->log_text, qr/component=sink level=warn [^\n]*msg="setting has no effect without the role sink" setting="webhook\.url"/, 'a relay without the role logs that the setting has no effect');
(undef, $out) = doctor();
like($out, qr/^WARN +sink +webhook\.url: has no effect without the role sink\n +hint: Add sink to \[relay\] roles/m, 'the doctor reports it');
unlike($out, qr/webhook endpoint/, 'and does not call the endpoint');
$relay->configure('webhook.url' => undef, 'webhook.secret_file' => undef, 'receipts.sql' => 'true');
$relay->restart;
like($relay->log_text, qr/msg="setting has no effect without the role sink" setting="receipts\.sql"/, 'as does the SQL sink');

# Web Pushes wait.
unlike($out, qr/web pushes/, 'without Web Pushes nothing is reported');
my $commits = $store->shared('webpush_commits');
$store->execute('ZADD', $commits, 1000 * (time - 500), 'first');
(undef, $out) = doctor();
unlike($out, qr/web pushes/, 'nor if the oldest has waited for a moment');
$store->execute('ZADD', $commits, 1000 * (time - 700), 'second');
(undef, $out) = doctor();
like($out, qr/^WARN +store +web pushes: the oldest has waited for 70\d s\n +hint: Start a relay with the role sink/m, 'Web Pushes that wait are reported');
done_testing();
