# Tests that a rule or notify() sets the ack timeout of first deliveries, retries, redriven notifications and rows of
# large transactions.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => "logical_decoding_work_mem = 64kB\n");
sub sql { return $pg->safe_psql('postgres', $_[0]) }
sql(q{
    CREATE TABLE quick (id int PRIMARY KEY, owner text);
    CREATE TABLE slow (id int PRIMARY KEY, owner text);
    CREATE TABLE usual (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('quick', 'USER', 'owner', ack_required => true, retry_limit => 2, backoff => 'FIXED', ack_timeout => '100 milliseconds');
    SELECT clairon.watch('slow', 'USER', 'owner', ack_required => true, retry_limit => 2, backoff => 'FIXED', ack_timeout => '1 hour');
    SELECT clairon.watch('usual', 'USER', 'owner', ack_required => true, retry_limit => 2, backoff => 'FIXED')});
is(sql(q{SELECT string_agg(format('%s %s', relation, coalesce(ack_timeout::text, '-')), ', ' ORDER BY relation::text) FROM clairon.rules}),
    'quick 00:00:00.1, slow 01:00:00, usual -', 'clairon.rules has the ack timeout');

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store,
    conf => { 'delivery.ack_timeout' => '24h', 'delivery.backoff_base' => '100ms', 'delivery.backoff_cap' => '1s' });
my $HOUR = 3600 * 1000;

sub attempts_by_source { return join ' ', map { "$_->{metadata}{source}:$_->{routing}{retry}{attempts}" } $_[0]->notifications }
sub id_of { my ($client, $source) = @_; return (grep { $_->{metadata}{source} eq $source } $client->notifications)[0]{metadata}{id} }
sub errors { return grep { $_->{id} eq $_[0] } $store->errors }
# Returns the milliseconds until the next retry.
sub due_in
{
    my ($id, $user) = @_;
    my ($seconds, $micros) = @{ $store->execute('TIME') };
    my $due = $store->execute('ZSCORE', $store->of($id, 'due'), "$id:$user") // return;
    return $due - $seconds * 1000 - $micros / 1000;
}

# Two rules in sequence: the notification with the shorter timeout is retried first.
my $client = $relay->client('u1');
sql(q{INSERT INTO usual VALUES (1, 'u1'); INSERT INTO slow VALUES (1, 'u1'); INSERT INTO quick VALUES (1, 'u1')});
$client->run_until('a retry arrives', sub { attempts_by_source($client) =~ /:1/ });
like(attempts_by_source($client), qr/^usual:0 slow:0 quick:0 quick:1/,
    'each notification has the ack timeout of its rule');
my ($quick, $slow, $usual) = map { id_of($client, $_) } qw(quick slow usual);
wait_until('the notification with the shorter timeout is exhausted', sub { errors($quick) });
$client->run_until('the last retry arrives', sub { attempts_by_source($client) =~ /quick:2/ });
is(scalar(() = attempts_by_source($client) =~ /quick:2/g), 1, 'retries use the ack timeout of the rule');
wait_until('the other deliveries are reported', sub { due_in($slow, 'u1') && due_in($usual, 'u1') });
ok(due_in($slow, 'u1') <= $HOUR, 'the longer ack timeout of a rule applies');
ok(due_in($usual, 'u1') > 12 * $HOUR, 'a rule without a timeout uses delivery.ack_timeout');
unlike(attempts_by_source($client), qr/usual:1/, 'without a timeout in the rule, no retry is sent before delivery.ack_timeout');
$client->ack($slow, $usual);

# A redriven notification keeps the timeout of its rule.
my ($entry) = errors($quick);
is(($relay->run('errors', 'redrive', $quick))[0], 0, 'an exhausted notification can be redriven');
my $before = scalar(() = attempts_by_source($client) =~ /quick:1/g);
$client->run_until('the notification is retried again', sub { scalar(() = attempts_by_source($client) =~ /quick:1/g) > $before });
pass('a redriven notification is retried after its rule\'s timeout');
$client->ack($quick);
$client->run_until('all notifications are acknowledged', sub { $store->pending == 0 });

# notify() sets timeouts that are shorter and longer than the setting.
my $long  = sql(q{SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true, ack_timeout => '2 days', source => 'long')});
my $short = sql(q{SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true, ack_timeout => '100 ms', source => 'short')});
$client->run_until('the notification with the shorter timeout is retried', sub { attempts_by_source($client) =~ /short:1/ });
wait_until('the delivery of the notification with the longer timeout is reported', sub { due_in($long, 'u1') });
ok(due_in($long, 'u1') > 40 * $HOUR, 'notify sets a longer timeout');
$client->ack($long, $short);
$client->run_until('all notifications are acknowledged', sub { $store->pending == 0 });

# So does a publication over HTTP, in seconds.
my $posted = Clairon::Test::RawSocket->new($relay)->request('POST', '/v1/notifications', Authorization => 'Bearer ' . token(sub => 'app', publish => JSON::true()),
    ':body' => JSON::encode_json({ payload => {}, metadata => { source => 'posted' },
        routing => { audience => { type => 'USER', targets => ['u1'] }, retry => { ack_required => JSON::true(), ack_timeout => 0.1 } } }));
is($posted->{status}, 201, 'a publication has a timeout');
$client->run_until('the publication is retried', sub { attempts_by_source($client) =~ /posted:1/ });
$client->ack(id_of($client, 'posted'));
$client->run_until('all notifications are acknowledged', sub { $store->pending == 0 });

# The user is absent when the retry is due: the relay defers the retry by the notification's timeout, not by the
# setting.
my $second = sql(q{SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true, retry_limit => 1000, ack_timeout => '100 ms', source => 'second')});
$client->run_until('the delivery is reported', sub { attempts_by_source($client) =~ /second:0/ });
$client->close;
wait_until('the retry is deferred', sub { my $due = $store->execute('ZSCORE', $store->of($second, 'due'), "$second:u1"); $due && $due =~ /\.25/ });
ok(due_in($second, 'u1') < $HOUR / 2, 'the retry for an absent user is deferred by the timeout of its notification');
my $reconnected = $relay->client('u1');
$reconnected->run_until('the notification arrives', sub { grep { $_->{metadata}{id} eq $second } $reconnected->notifications });
$reconnected->ack($second);
$reconnected->run_until('all notifications are acknowledged', sub { $store->pending == 0 });

# A large transaction is encoded before its commit.
sql(q{BEGIN; INSERT INTO quick SELECT i, CASE WHEN i = 5000 THEN 'u1' END FROM generate_series(10, 5000) i; COMMIT});
$reconnected->run_until('the row of a large transaction is retried', sub { attempts_by_source($reconnected) =~ /quick:1/ });
pass('a row of a large transaction is retried after its rule\'s timeout');
$reconnected->ack(map { $_->{metadata}{id} } $reconnected->notifications);
$reconnected->run_until('all notifications are acknowledged', sub { $store->pending == 0 });

# The notification has a trace context and remains unacknowledged.
my $traced = sql(q{SET clairon.traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true, ack_timeout => '100 ms', source => 'traced')});
sql(q{SELECT clairon.notify('USER', '{u1}', '{}', ack_timeout => '100 ms', source => 'plain')});
$reconnected->run_until('both notifications arrive', sub { attempts_by_source($reconnected) =~ /traced:1/ && attempts_by_source($reconnected) =~ /plain:0/ });
is((grep { $_->{metadata}{source} eq 'traced' } $reconnected->notifications)[0]{metadata}{traceparent}, '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'the timeout and the trace context are both set');
$reconnected->ack($traced);
$reconnected->run_until('all notifications are acknowledged', sub { $store->pending == 0 });

for my $wrong (q{'0'}, q{'-1 second'}, q{'31 days'}, q{'0.0001 seconds'})
{
    my ($status, $out, $err) = $pg->psql('postgres', "SELECT clairon.watch('quick', 'USER', 'owner', ack_timeout => $wrong)");
    like($err, qr/invalid value for parameter "ack_timeout": \S.*\nHINT:  Valid values are NULL, or 1 millisecond to 30 days\./, "watch rejects $wrong");
    ($status, $out, $err) = $pg->psql('postgres', "SELECT clairon.notify('ALL', NULL, '{}', ack_timeout => $wrong)");
    like($err, qr/invalid value for parameter "ack_timeout": \S/, "notify rejects $wrong");
}

done_testing();
