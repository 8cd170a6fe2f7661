# Tests receipts against a simple model, with random calls of the scripts in random order: each pair and each notification
# has exactly one outcome in a round, with the right counts, and no state remains.
#
# CLAIRON_SCRIPTS_SEED=n repeats a run; CLAIRON_SCRIPTS_STEPS=n makes it longer.
use strict;
use warnings;

use Clairon::Test qw(script_text amount);
use JSON ();
use Test::More;

my $STEPS = $ENV{CLAIRON_SCRIPTS_STEPS} // amount(1500, 20_000);
my $SEED  = $ENV{CLAIRON_SCRIPTS_SEED} // int(rand(1_000_000));
srand $SEED;
note "seed $SEED, $STEPS steps";

my $HOUR  = 3_600_000;
my $store = Clairon::Test::store();
my %sha   = map { $_ => $store->execute('SCRIPT', 'LOAD', script_text($_)) } qw(hello ingest report ack due drop redrive error_entry);
sub script { my ($name, $keys, @arguments) = @_; return $store->execute_bytes('EVALSHA', $sha{$name}, scalar @$keys, @$keys, 'c', @arguments) }
sub call { my ($name, @arguments) = @_; return script($name, ['c:stream'], @arguments) }
sub one_of { return $_[ rand @_ ] }

my $epoch = call('hello', '0123456789abcdef', '', '0-0', 1, 1)->[0];
$store->execute('HSET', 'c:progress:s', 'owner', 'o');
my @USERS = map { "u$_" } 1 .. 8;
# The retry of an absent user is suspended.
$store->execute('ZADD', 'c:relays', 9_999_999_999_999, 'r');
$store->execute('SADD', 'c:presence:r', @USERS);

# The header of a notification without retries. Half of them expire, in a far future.
sub expires { my ($id) = @_; return hex(substr $id, -1) % 2 }
sub route { my ($kind, $id) = @_;
    my $route = "\0" x 104;
    substr $route, 7, 1, chr(3 | ($kind ? 128 : 0));
    substr $route, 48, 8, pack 'Q>', 9_999_999_999_000_000 if expires($id);
    substr $route, 94, 1, chr $kind;
    return $route }
sub data { my ($id) = @_; return qq({"metadata":{"id":"$id","priority":"LOW","type":"SYSTEM","emitter":"m e","source":"s","topic":"t","operation":"notify"}}) }

# ---- the model: by id, the kind of receipts, and the pairs with state (pending, or the outcome), delivered, round
my (%model, @wanted, $position);
my @ORDER = qw(dropped exhausted expired unreached);

sub pending { my ($id) = @_; my $pairs = $model{$id}{pairs}; return grep { $pairs->{$_}{state} eq 'pending' } sort keys %$pairs }
sub open_ids { return grep { !$model{$_}{has_ended} } sort keys %model }

sub end_pair { my ($id, $user, $outcome) = @_;
    my ($notification, $pair) = ($model{$id}, $model{$id}{pairs}{$user});
    $outcome = 'unreached' if $outcome =~ /expired|exhausted/ && !$pair->{delivered};
    $pair->{state} = $outcome;
    push @wanted, "$id:$user:$outcome:$pair->{round}" if $notification->{kind} == 2;
    return }

sub end_notification { my ($id) = @_;
    my $notification = $model{$id};
    my @states = map { $_->{state} } values %{ $notification->{pairs} };
    my ($worst) = grep { my $outcome = $_; grep { $_ eq $outcome } @states } @ORDER;
    $notification->{round}++;
    $notification->{has_ended} = 1;
    $notification->{is_open} = 0;
    push @wanted, join ' ', "$id\::" . ($worst // (@states ? 'acked' : 'unreached')) . ":$notification->{round}", scalar(grep { $_ eq 'acked' } @states), scalar @states
      if $notification->{kind};
    return }
sub end_if_complete { my ($id) = @_; end_notification($id) if !$model{$id}{is_open} && !$model{$id}{has_ended} && !pending($id); return }

sub add { my ($kind, %users) = @_;
    my $id = sprintf '%08x-0000-8000-8000-%012x', scalar keys %model, scalar keys %model;
    my $next = sprintf '%016x%016x', 1 + keys %model, 1;
    script('ingest', [ 'c:stream', 'c:progress:s' ], $epoch, 'o', $position // '', '', '', 1000, '', 'A', $next, $id, route($kind, $id), data($id),
        (%users ? ('USER', scalar(keys %users), sort keys %users) : ('ALL', 0)));
    $position = $next;
    $model{$id} = { kind => $kind, is_open => !%users, round => 0, pairs => { map { $_ => { state => 'pending', round => 1 } } keys %users } };
    return $id }
sub report { my ($id, $user) = @_;
    my $notification = $model{$id};
    call('report', $HOUR, 100, 1000, $HOUR, 'S', $user, $id);
    return if $notification->{has_ended};
    if ($notification->{is_open} && !$notification->{pairs}{$user})
    {
        $notification->{pairs}{$user} = { state => 'pending', round => 1 };
        end_pair($id, $user, 'acked') if delete $notification->{early}{$user};
    }
    my $pair = $notification->{pairs}{$user} or return;
    $pair->{delivered} = 1 if $pair->{state} eq 'pending';
    return }
sub ack { my (@pairs) = @_;
    my @ids = map { $_->[0] } @pairs;
    call('ack', 'r', $HOUR, scalar(@pairs), map({ ($_->[1], 1) } @pairs), @ids);
    for (@pairs)
    {
        my ($id, $user) = @$_;
        my $pair = $model{$id}{pairs}{$user};
        $model{$id}{early}{$user} = 1 if !$pair && $model{$id}{is_open};
        end_pair($id, $user, 'acked') if $pair && $pair->{state} eq 'pending';
    }
    end_if_complete($_) for @ids;
    return }
sub exhaust { my ($id, @due) = @_;
    $store->execute('ZADD', 'c:due', 1, "$id:$_") for @due;
    call('due', $HOUR, $HOUR, 100, 1000);
    end_pair($id, $_, 'exhausted') for @due;
    end_if_complete($id);
    return }

my %steps = (
    add    => sub { add(one_of(0, 1, 2, 2), rand() < 0.2 ? () : map { one_of(@USERS) => 1 } 1 .. 1 + int rand 4) },
    report => sub { report(one_of(sort keys %model), one_of(@USERS)) if %model },
    ack    => sub { my %done; ack(grep { $_->[0] && !$done{"@$_"}++ } map { [ one_of(sort keys %model), one_of(@USERS) ] } 1 .. 1 + int rand 5) },
    exhaust => sub {
        my $id = one_of(open_ids()) or return;
        my @due = grep { rand() < 0.5 && defined $store->execute('ZSCORE', 'c:due', "$id:$_") } pending($id) or return;
        @due = grep { $model{$id}{pairs}{$_}{delivered} } @due or return;
        exhaust($id, @due);
    },
    expire => sub {
        my $id = one_of(grep { expires($_) || $model{$_}{is_open} } open_ids()) or return;
        $store->execute('ZADD', 'c:due', 1.5, "$id:");
        call('due', $HOUR, $HOUR, 100, 1000);
        end_pair($id, $_, 'expired') for pending($id);
        end_notification($id);
    },
    drop => sub {
        my $id = one_of(sort keys %model) or return;
        call('drop', $HOUR, $id);
        return if $model{$id}{has_ended};
        end_pair($id, $_, 'dropped') for pending($id);
        end_notification($id);
    },
    redrive => sub {
        my $entry = one_of($store->entries('c:errors')) or return;
        my $id = $entry->{id};
        call('redrive', $entry->{entry}, $id, route($model{$id}{kind}, $id), data($id), expires($id) ? 9_999_999_999_000 : 0, $HOUR);
        my @again = grep { $model{$id}{pairs}{$_}{state} !~ /pending|acked/ } @{ JSON::decode_json($entry->{users}) } or return;
        $model{$id}{has_ended} = 0;
        for my $pair (map { $model{$id}{pairs}{$_} } @again) { $pair->{round}++; $pair->{state} = 'pending' }
    },
    forget_error => sub {
        my $entry = one_of($store->entries('c:errors')) or return;
        call('error_entry', $entry->{entry}, 'drop');
    });
my @names = ((map { ($_) x 4 } qw(add report report ack exhaust redrive)), sort keys %steps);

sub receipts { return map { my $receipt = JSON::decode_json($_->{data});
    $receipt->{user_id} eq '' ? "$receipt->{id} $receipt->{acked} $receipt->{recipients}" : $receipt->{id} } $store->entries('c:receipts') }

# The last ack of a notification whose other user was exhausted, in one call with that of a notification for one user: the
# pending values are alike, but only one of them has the origin.
my ($two, undef, $one) = (add(2, u1 => 1, u2 => 1), add(0, u1 => 1), add(2, u3 => 1));
report($two, $_) for 'u1', 'u2';
exhaust($two, 'u1');
ack([ $two, 'u2' ], [ $one, 'u3' ]);

my $step = 0;
for (1 .. $STEPS)
{
    $step++;
    my $name = one_of(@names);
    $steps{$name}->();
    next if $store->entries('c:receipts') == @wanted;
    my %count;
    $count{$_}++ for receipts();
    $count{$_}-- for @wanted;
    fail("step $step, $name: the receipts differ from the model: " . join ', ', map { "$_ $count{$_}" } grep { $count{$_} } sort keys %count);
    last;
}
is_deeply([ sort(receipts()) ], [ sort @wanted ], "after $step steps, the receipts are those of the model");
my %outcomes = map { /:(\w+):\d+ ?/ ? ($1 => 1) : () } @wanted;
is_deeply([ sort keys %outcomes ], [ sort 'acked', @ORDER ], 'each outcome occurred');
ok((grep { /:2$/ } @wanted) && (grep { /:2 \d+ \d+$/ } @wanted), 'second rounds occurred');

# The state of a notification exists while it is pending, or can be redriven.
my %logged = map { $_->{id} => 1 } $store->entries('c:errors');
my @kept = grep { $model{$_}{kind} && (!$model{$_}{has_ended} || $logged{$_}) } sort keys %model;
is_deeply([ grep { $store->execute('EXISTS', "c:receipt_state:$_") } sort keys %model ], [ grep { $store->execute('EXISTS', "c:receipt_state:$_") } @kept ], 'no other state remains');
is(scalar(grep { !$model{$_}{has_ended} && $model{$_}{kind} && !$store->execute('EXISTS', "c:receipt_state:$_")
      && $store->execute('HGET', 'c:pending', $_) !~ / i/ } sort keys %model), 0, 'pending notifications have a state');
is_deeply([ grep { my $receipt = JSON::decode_json($_->{data}); "$receipt->{emitter},$receipt->{source},$receipt->{topic}" ne 'm e,s,t' } $store->entries('c:receipts') ],
    [], 'receipts have the emitter, source and topic of their notifications');
call('error_entry', $_->{entry}, 'drop') for $store->entries('c:errors');
call('drop', $HOUR, $_) for sort keys %model;
is(scalar(@{ $store->execute('KEYS', 'c:receipt_state:*') }), 0, 'after all have ended, no state remains');

done_testing();
