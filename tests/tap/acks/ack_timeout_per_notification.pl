# Does a notification wait for its acknowledgement as long as its rule, or its notify, says, also for retries, after a redrive and from a large transaction?
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => "logical_decoding_work_mem = 64kB\n");
sub sql { return $pg->safe_psql('postgres', $_[0]) }
sql(q{
    CREATE TABLE quick (id int PRIMARY KEY, owner text);
    CREATE TABLE slow (id int PRIMARY KEY, owner text);
    CREATE TABLE usual (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('quick', 'USER', 'owner', ack_required => true, retry_limit => 2, backoff => 'FIXED', ack_timeout => '100 milliseconds');
    SELECT clairon.watch('slow', 'USER', 'owner', ack_required => true, retry_limit => 2, backoff => 'FIXED', ack_timeout => '3 seconds');
    SELECT clairon.watch('usual', 'USER', 'owner', ack_required => true, retry_limit => 2, backoff => 'FIXED')});
is(sql(q{SELECT string_agg(format('%s %s', relation, coalesce(ack_timeout::text, '-')), ', ' ORDER BY relation::text) FROM clairon.rules}),
    'quick 00:00:00.1, slow 00:00:03, usual -', 'clairon.rules shows it');

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store,
    conf => { 'delivery.ack_timeout' => '1h', 'delivery.backoff_base' => '100ms', 'delivery.backoff_cap' => '1s' });
my $HOUR = 3600 * 1000;

sub shown { return join ' ', map { "$_->{metadata}{source}:$_->{routing}{retry}{attempts}" } $_[0]->notifications }
sub id_of { my ($client, $source) = @_; return (grep { $_->{metadata}{source} eq $source } $client->notifications)[0]{metadata}{id} }
sub errors { return grep { $_->{id} eq $_[0] } $store->entries('clairon:errors') }
# In how many ms the store shows it again.
sub due_in
{
    my ($id, $user) = @_;
    my ($seconds, $micros) = @{ $store->execute('TIME') };
    my $due = $store->execute('ZSCORE', $store->of($id, 'due'), "$id:$user") // return;
    return $due - $seconds * 1000 - $micros / 1000;
}

# Two rules, one after the other: the one with less time is shown again first.
my $client = $relay->client('u1');
sql(q{INSERT INTO usual VALUES (1, 'u1'); INSERT INTO slow VALUES (1, 'u1'); INSERT INTO quick VALUES (1, 'u1')});
$client->run_until('retries of both', sub { shown($client) =~ /slow:1/ });
like(shown($client), qr/^usual:0 slow:0 quick:0 quick:1 .*slow:1/, 'each waits as long as its rule says');
my ($quick, $slow, $usual) = map { id_of($client, $_) } qw(quick slow usual);
$client->run_until('the quick one is given up', sub { errors($quick) });
is(scalar(() = shown($client) =~ /quick:2/g), 1, 'its retries wait as long');
wait_until('the showing of the usual one is reported', sub { due_in($usual, 'u1') });
ok(due_in($usual, 'u1') > $HOUR / 2, 'a rule without waits as long as delivery.ack_timeout says');
unlike(shown($client), qr/usual:1/, 'and is not shown again before');
$client->ack($slow, $usual);

# A redriven one still has the time of its rule.
my ($entry) = errors($quick);
is(($relay->run('errors', 'redrive', $quick))[0], 0, 'the quick one is redriven');
my $before = scalar(() = shown($client) =~ /quick:1/g);
$client->run_until('it is retried again', sub { scalar(() = shown($client) =~ /quick:1/g) > $before });
pass('in the time of its rule');
$client->ack($quick);
$client->run_until('all is acknowledged', sub { $store->pending == 0 });

# notify: more, and less, than the setting.
my $long  = sql(q{SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true, ack_timeout => '2 days', source => 'long')});
my $short = sql(q{SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true, ack_timeout => '100 ms', source => 'short')});
$client->run_until('a retry of the short one', sub { shown($client) =~ /short:1/ });
wait_until('the showing of the long one is reported', sub { due_in($long, 'u1') });
ok(due_in($long, 'u1') > 40 * $HOUR, 'notify has a time of its own too');
$client->ack($long, $short);
$client->run_until('all is acknowledged', sub { $store->pending == 0 });

# Nobody is there when it is due: it is put off by its own time, not by the setting.
sql(q{INSERT INTO quick VALUES (2, 'u1')});
$client->run_until('row 2', sub { grep { ($_->{payload}{after}{id} // 0) == 2 } $client->notifications });
my ($second) = map { $_->{metadata}{id} } grep { ($_->{payload}{after}{id} // 0) == 2 } $client->notifications;
$client->close;
wait_until('it is put off', sub { my $due = $store->execute('ZSCORE', $store->of($second, 'due'), "$second:u1"); $due && $due =~ /\.25/ });
ok(due_in($second, 'u1') < $HOUR / 2, 'put off by as much');
my $back = $relay->client('u1');
$back->run_until('it comes', sub { grep { $_->{metadata}{id} eq $second } $back->notifications });
$back->ack($second);
$back->run_until('all is acknowledged', sub { $store->pending == 0 });

# A large transaction is rendered before its commit.
sql(q{BEGIN; INSERT INTO quick SELECT i, CASE WHEN i = 5000 THEN 'u1' END FROM generate_series(10, 5000) i; COMMIT});
$back->run_until('the row of a large transaction', sub { shown($back) =~ /quick:1/ });
pass('it is shown again in the time of its rule');
$back->ack(map { $_->{metadata}{id} } $back->notifications);
$back->run_until('all is acknowledged', sub { $store->pending == 0 });

# With a trace, and not for what asks for no acknowledgement.
my $traced = sql(q{SET clairon.traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true, ack_timeout => '100 ms', source => 'traced')});
sql(q{SELECT clairon.notify('USER', '{u1}', '{}', ack_timeout => '100 ms', source => 'plain')});
$back->run_until('both', sub { shown($back) =~ /traced:1/ && shown($back) =~ /plain:0/ });
is((grep { $_->{metadata}{source} eq 'traced' } $back->notifications)[0]{metadata}{traceparent}, '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'beside a trace');
$back->ack($traced);
$back->run_until('all is acknowledged', sub { $store->pending == 0 });

for my $wrong (q{'0'}, q{'-1 second'}, q{'31 days'}, q{'0.0001 seconds'})
{
    my ($status, $out, $err) = $pg->psql('postgres', "SELECT clairon.watch('quick', 'USER', 'owner', ack_timeout => $wrong)");
    like($err, qr/ack_timeout: \S.* is not valid\nHINT:  Valid: NULL, or 1 millisecond to 30 days\./, "watch refuses $wrong");
    ($status, $out, $err) = $pg->psql('postgres', "SELECT clairon.notify('ALL', NULL, '{}', ack_timeout => $wrong)");
    like($err, qr/ack_timeout: \S.* is not valid/, "notify refuses $wrong");
}

done_testing();
