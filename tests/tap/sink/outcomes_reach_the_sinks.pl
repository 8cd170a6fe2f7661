# Tests the way of receipts from an acknowledgement to the sinks: a row that the sender sees in a live list, and a request of the
# webhook; an escalation with its notification; and receipts that were trimmed before a sink has read them.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Endpoint;
use Clairon::Test::Receipts;
use Test::More;

my $pg       = Clairon::Test::postgresql('main');
my $store    = Clairon::Test::store();
my $receipts = Clairon::Test::Receipts->new($pg, $store);
my $endpoint = Clairon::Test::Endpoint->launch;
my $relay = Clairon::Test::relay($pg, $store, conf => { 'receipts.sql' => 'true', $endpoint->settings });
sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub requested { my %found = map { $_->{id} => $_ } map { @{ $_->{json}{receipts} } } $endpoint->requests; return \%found }

sql(q{SELECT clairon.watch('clairon.receipt', 'USER', 'emitter', live => true)});
my ($status, undef, $error) = $pg->psql('postgres', q{SELECT clairon.watch('clairon.receipt', 'USER', 'emitter', name => 'more', receipts => 'user')});
isnt($status, 0, 'a rule on the table of receipts must not ask for receipts');
my $teacher = $relay->client('teacher');
my %pupils = map { $_ => $relay->client($_) } qw(u1 u2);
my $id = sql(q{SELECT clairon.notify('USER', '{u1,u2}', '{"text":"homework"}', emitter => 'teacher', ack_required => true, receipts => 'user')});
for my $pupil (sort keys %pupils)
{
    $pupils{$pupil}->wait_for(sub { $_[0]{t} eq 'msg' && $_[0]{n}{metadata}{id} eq $id });
    $pupils{$pupil}->send({ t => 'ack', ids => [$id] });
    $teacher->wait_for(sub { $_[0]{t} eq 'msg' && ($_[0]{n}{payload}{after}{user_id} // '') eq $pupil });
    pass("the sender sees the acknowledgement of $pupil");
}
my $whole = $teacher->wait_for(sub { $_[0]{t} eq 'msg' && ($_[0]{n}{payload}{after}{user_id} // 'x') eq '' })->{n}{payload}{after};
is_deeply([ @$whole{qw(outcome acked recipients notification)} ], [ 'acked', 2, 2, $id ], 'the sender sees the end of the notification');
wait_until('the webhook has received the same receipts', sub { my $found = requested(); 3 == grep { /^\Q$id\E:/ } keys %$found });
is(sql(q{SELECT count(*) FROM clairon.receipt}), 3, 'there is one row for each');

my $urgent = sql(q{SELECT clairon.notify('USER', '{u3}', '{"text":"urgent"}', ack_required => true, escalate_after => '1 s')});
my $escalation = wait_until('the escalation is sent', sub { my $found = requested(); my ($key) = grep { /^\Q$urgent\E:u3:escalated:/ } keys %$found; $key && $found->{$key} });
is($escalation->{n}{metadata}{id}, $urgent, 'it has the notification');
is($escalation->{n}{payload}{text}, 'urgent', 'with its payload');

# Each sink reads separately: this one may still lack the escalation.
wait_until('the SQL sink has taken all receipts', sub {
    my ($newest) = map { $_->[0] } @{ $store->execute('XREVRANGE', $store->shared('receipts'), '+', '-', 'COUNT', 1) };
    my ($group) = grep { $_->{name} eq 'sql' } map { {@$_} } @{ $store->execute('XINFO', 'GROUPS', $store->shared('receipts')) };
    return $group->{pending} == 0 && $group->{'last-delivered-id'} eq $newest;
});

# The primary is away until receipts are trimmed.
$pg->stop('immediate');
$relay->wait_for_log(qr/msg="connection to the primary lost" sink="sql"/);
$receipts->add(map { {} } 1 .. 20);
wait_until('the webhook has received them', sub { my $found = requested(); 20 <= grep { $receipts->{ids}{$_} } keys %$found });
$relay->configure('receipts.retention' => '1s');
$relay->stop;
my $end = time + 2;
wait_until('the retention has passed', sub { time > $end });
my $script = Clairon::Test::script_text('trim');
$store->execute('EVAL', $script, 1, $store->shared('stream'), $store->shared('stream') =~ s/:stream$//r, 1_000_000_000, 1000, 1_000_000_000);
is($store->execute('XLEN', $store->shared('receipts')), 0, 'the receipts were trimmed');
is($store->execute('HGET', $store->shared('sinks'), 'dropped:sql'), 20, 'those that the sink had not read are counted for it');
is($store->execute('HGET', $store->shared('sinks'), 'dropped:webhook'), undef, 'the webhook had read all');
$pg->start;
$relay->start;
wait_until('the relay counts them', sub { ($relay->metric('clairon_sink_dropped_total{sink="sql"}') // 0) == 20 });
done_testing();
