"""Calls on a container `td` of batch size [2, 3] with entries `a` and (`b`, `c`); `T` is the library's `TensorDict`.

A line that starts with `!` is a statement, whose outcome is what it leaves in `td`. Here: operations.
"""

from __future__ import annotations

OPERATIONS = r"""
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"])[0].names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"])[:, 0].names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"])[:1].names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"])[None].names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"])[torch.tensor([0, 1])].names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"])[..., 0].names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"]).permute(1, 0).names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"]).transpose(0, 1).names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"]).unsqueeze(0).names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"]).unsqueeze(1).squeeze().names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"]).reshape(6).names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"]).view(-1).names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"]).flatten(0, 1).names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"]).unflatten(0, (1, 2)).names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"]).expand(4, 2, 3).names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"]).unbind(0)[0].names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"]).split(1)[0].names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"]).clone().names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"]).apply(lambda t: t).names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"]).select("a").names
(T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"]) + 1).names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"]).to(torch.float64).names
torch.stack([T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"])] * 2).names
torch.cat([T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"])] * 2).names
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "x"])
T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x"])
T({"a": torch.zeros(3)}, batch_size=[2])
T({"a": torch.zeros(3)}, batch_size=[3, 1])
T({"a": torch.zeros(3)}, batch_size=3)
T({"a": torch.zeros(3)}, batch_size=torch.Size([3]))
T({"a": torch.zeros(3)})
T({"a": 1.0, "b": [1, 2], "c": True})
T({"a": {"b": torch.zeros(3)}}, batch_size=[3])
T({("a", "b"): torch.zeros(3)}, batch_size=[3])
T(a=torch.zeros(3), b=torch.ones(3), batch_size=[3])
T({"a": torch.zeros(3)}, batch_size=[3], device="cpu").device
T({"a": torch.zeros(3)}, batch_size=[3], lock=True).is_locked
td == td.clone()
td == 0
td != td
td > 5
-td
abs(td - 5)
td + td
td - 1
1 - td
td * 2
2 / (td + 1)
td ** 2
2 ** td
td % 3
td.int() & 1
td.int() | td.int()
td.int() ^ 3
~td.int()
td.add(td, alpha=2)
td.sub(1, alpha=2)
td.add(td.select("a"), default=1.0)
td.add(td.select("a"), default="intersection")
td.add(td.select("a"))
td.mul(td.select("a"))
td.mul(td.select("a"), default=2.0)
td.clamp(2, 5)
td.clamp(min=2)
td.clamp(max=td * 0 + 3)
td.clamp_max(3)
td.clamp_min(3.5)
td.maximum(td.flip(0))
td.minimum(td.flip(0))
td.lerp(td + 1, 0.5)
td.addcmul(td, td, value=2)
td.addcdiv(td, td + 1, value=2)
td + torch.ones(3)
td + torch.ones(2, 3)
td * torch.ones(2, 1)
td + torch.ones(4)
td + torch.ones(2, 3, 4)
td + torch.tensor(2.0)
td + "x"
!td += 1
!td -= td.clone()
!td *= 2
!td /= 2
!td **= 2
td.logical_and(td)
td.bool().bitwise_and(td.bool())
td.pow(2)
td.pow(td * 0 + 2)
td.mod(3)
td.rsub(1)
td.where(td["a"].sum(-1) > 30, 0.0)
td.where(td["a"].sum(-1) > 30, td + 1)
td.where(torch.tensor([True, False]), td + 1)
td.where(torch.ones(2, 3, dtype=torch.bool), td.select("a"), pad=0)
td.masked_fill(torch.tensor([True, False]), -1)
td.masked_fill(torch.ones(2, 3, dtype=torch.bool), 0)
td.masked_fill(torch.ones(3, dtype=torch.bool), 0)
td.masked_fill_(torch.tensor([True, False]), -1)
td.masked_select(torch.tensor([True, False]))
td.masked_select(torch.ones(3, dtype=torch.bool))
td.gather(0, torch.zeros(1, 3, dtype=torch.int64))
td.gather(-1, torch.zeros(2, 1, dtype=torch.int64))
td.gather(2, torch.zeros(2, 3, dtype=torch.int64))
td.gather(0, torch.zeros(3, dtype=torch.int64))
td.get_at("a", 0)
td.get_at(("b", "c"), (0, 1))
td.get_at("zz", 0, None)
td.is_contiguous()
td.permute(1, 0).is_contiguous()
td.permute(1, 0).contiguous().is_contiguous()
td.transpose(0, 1).view(6)
td.stack_from_tensordict()
td.select("a").cat_from_tensordict(0)
td.split([1, 1], 0)
td.split([1, 2], 0)
td.split(0, 0)
td.chunk(0)
td.tensor_split([1], 1)
td.tensor_split(torch.tensor([1]), 1)
td.unbind(2)
td.unbind(-3)
td.flatten(1, 0)
td.flatten(0, 2)
td.unflatten(0, (3, 2))
td.squeeze(2)
td.unsqueeze(3)
td.unsqueeze(-4)
td.permute(0, 0)
td.permute(0, 1, 2)
td.reshape(5)
td.reshape(-1, -1)
td.view(3, 2)
td.expand(2, 6)
td.expand(3)
td.flip(2)
td.roll(1, 2)
td.narrow(0, 1, 5)
td.narrow(2, 0, 1)
td.movedim(0, 2)
td.rot90(1, (0, 2))
td.repeat_interleave(2, dim=2)
td.tile(2)
td.tile((1, 2))
torch.stack([td, td], -4)
torch.cat([td, td], 2)
torch.cat([td, td], -3)
torch.stack([td, td[0]])
torch.cat([td, td[:1]])
torch.cat([td, td[:, :1]])
torch.stack([td, td.select("a")])
torch.stack([])
torch.stack([td, 1])
torch.cat([td, td], 1)
torch.stack([td, td], 2)
torch.unbind(td, 1)
torch.split(td, 1, 1)
torch.chunk(td, 2, 1)
torch.permute(td, (1, 0))
torch.squeeze(td)
torch.unsqueeze(td, 0)
torch.reshape(td, (6,))
torch.flatten(td)
torch.unflatten(td, 0, (1, 2))
torch.transpose(td, 0, 1)
torch.gather(td, 0, torch.zeros(1, 3, dtype=torch.int64))
torch.flip(td, (0,))
torch.roll(td, 1, 0)
torch.movedim(td, 0, 1)
torch.clone(td)
torch.repeat_interleave(td, 2, 0)
torch.where(torch.ones(2, 3, dtype=torch.bool), td, td + 1)
torch.masked_select(td, torch.tensor([True, False]))
torch.narrow(td, 0, 0, 1)
torch.tile(td, (2,))
torch.broadcast_to(td, (4, 2, 3))
list(reversed(list(td)))
[x["a"].sum() for x in td]
td.__getitems__([0, 1])
td.new_tensor(td.flip(0))
td.new_tensor(torch.ones(3, dtype=torch.int64))
td.new_tensor([1.0], dtype=torch.float64)
td.int().new_tensor([1.5])
T(batch_size=[2]).auto_batch_size_()
T({"n": T(batch_size=[2, 3]), "a": torch.zeros(2)}, batch_size=[2]).auto_batch_size_()
list(iter(T(a=torch.zeros(3))))
len(T(a=torch.zeros(3)))
td.view(-1).shape
td.view(torch.int32)
td.expand(5,2,3).shape
td.expand(5,-1,-1).shape
td.squeeze().shape
td.squeeze(0).shape
td.transpose(0,1).shape
td.transpose(0,2)
td.permute(1,0).shape
td.permute([1,0]).shape
td.permute(1)
td.flatten()
td.flatten(0,0)
td.unflatten(0,(2,1)).shape
td.unflatten(1,[3,-1]).shape
td.repeat(2,2).shape
td.repeat(2)
td.repeat(2,1,1)
td.repeat_interleave(2).shape
td.repeat_interleave(2,dim=1).shape
td.repeat_interleave(torch.tensor([1,2]),dim=0).shape
td.tile((2,)).shape
td.tile((2,2,2)).shape
td.flip(0)['a'][0,0]
td.flip((0,1))['a'][0,0]
td.fliplr()['a'][0,0]
td.roll(1)['a'][0,0]
td.roll(1,0)['a'][0,0]
td.roll((1,1),(0,1))['a'][0,0]
td.rot90().shape
td.narrow(0,0,1).shape
td.narrow(1,-2,1).shape
td.atleast_3d().shape
td[0,0].atleast_3d().shape
td[0,0].atleast_1d().shape
td[0].atleast_2d().shape
td[0].atleast_3d().shape
td.movedim(0,1).shape
td.split(1,1)
td.split([1,2],1)
td.split([1,1],1)
td.tensor_split(2,1)
td.tensor_split([1,2],1)
td.chunk(2,1)
td.chunk(5,0)
td.unbind(1)
T.stack([td,td],1).shape
T.stack([td,td],2).shape
T.stack([td,td],3).shape
T.stack([td,td],-1).shape
T.cat([td,td],-1).shape
td.select('a').stack_from_tensordict()
T(a=torch.zeros(2),b=torch.ones(2),batch_size=[2]).stack_from_tensordict()
T(a=torch.zeros(2),b=torch.ones(2),batch_size=[2]).stack_from_tensordict(1)
T(a=torch.zeros(2),b=torch.ones(2),batch_size=[2]).cat_from_tensordict()
T(a=torch.zeros(2),b=torch.ones(2),batch_size=[2]).stack_tensors('a','b',out_key='c')
T(a=torch.zeros(2),b=torch.ones(2),batch_size=[2]).stack_tensors('a','b',out_key='c',dim=-1,keep_entries=True)
T(a=torch.zeros(2,3),b=torch.ones(2,3),batch_size=[2]).cat_tensors('a','b',out_key='c',dim=-1)['c'].shape
T(a=torch.zeros(2,3),b=torch.ones(2,3),batch_size=[2]).cat_tensors('a','b',out_key='c',dim=0)
td.masked_select(torch.tensor([[True,False,True],[False,False,True]]))
td.gather(1,torch.tensor([[0],[2]]))
td.gather(0,torch.tensor([[0,0,0]]))['a'].shape
td.get_at('a',0).shape
td.get_at('zz',0)
td.set_at_('a',1.0,0)['a'][0,0]
!td[0]=td[1]
!td[0]=1.0
!td[0]=torch.zeros(3)
!td[0]={'a':torch.zeros(3,4)}
!td[0]=td.select('a')[0]
!td[0]=T(a=torch.ones(4),b=T(c=torch.ones(2)))
!td['a']=torch.zeros(3)
td.set_('zz',torch.zeros(2,3))
td.update_({'zz':torch.zeros(2,3)})
td.update_({'a':torch.ones(2,3,4)})['a'][0,0]
td.update_({'a':torch.ones(4)})['a'][0,0]
td.update_({'a':1.0})['a'][0,0]
td.update({'b':{'d':torch.zeros(2,3)}})
td.update({('b','d'):torch.zeros(2,3)})
td.update({'a':torch.ones(2,3,4)},inplace=True)['a'][0,0]
td.copy_(td.clone().zero_())['a'][0,0]
td.copy_(td.select('a'))
td.copy_at_(td[0],1)['a'][1,0]
td.update_at_({'a':torch.ones(3,4)},0)['a'][0,0]
td.to(torch.int32)
td.to('cpu', torch.float64)
td.to(torch.zeros(1,dtype=torch.float64))
td.to(batch_size=[2])
td.float().dtype
td.type(torch.int8).dtype
td.clear_device_().device
td.create_nested('x')['x'].batch_size
td.rename_key_('a',('b','a'))
td.rename_keys({'q':'z'},strict=False)
td.flatten_keys('_')
T({'a.b':torch.zeros(2),'a':torch.ones(2)},[2]).unflatten_keys('.')
T({'a.b':torch.zeros(2),'a':{'b':torch.ones(2)}},[2]).flatten_keys('.')
td.split_keys(['a','zz'],strict=False)
td.split_keys(['a'],['b'],reproduce_struct=True)
td.select(('b','c'))
td.exclude('zz')
td.pop('zz',None)
td.pop('zz')
td.setdefault('a',None).shape
td.new_zeros(3)['a'].shape
td.new_zeros(5,2)['b'].shape
td.new_full((),1.)['a'].shape
td.fromkeys(['a',('b','c')],1)
T.from_schema({'a':([3],torch.float32)},batch_size=[4])
td.apply(lambda x:x.sum(-1),batch_size=[2])
td.apply(lambda x,y:x+y,td)['a'].shape
td.apply(lambda x,y:x if y is None else x+y,td.select('a'),default=None)
td.apply(lambda x:x+1,inplace=True)
td.apply(lambda x:x.sum(),batch_size=[])
td.apply(lambda x: None, filter_empty=True)
td.apply(lambda x: None, filter_empty=False)
td.apply(lambda x: x, call_on_nested=True)
td.lock_().set('zz',torch.zeros(2,3))
td.lock_()['b'].unlock_()
td.lock_()['b'].set('x',torch.zeros(2,3))
td.lock_().set('a',torch.zeros(2,3,4))
td.lock_().set('a',torch.zeros(2,3,4),inplace=True)['a'][0,0]
td.where(torch.tensor([True,False]),1.0)
td.where(torch.tensor([[True,False,True],[True,False,True]]),0.0)['a'][0,1]
td.where(torch.tensor([True,False])[:,None],td+1)['a'].shape
td[...,0].shape
td[None].shape
td[:, None].shape
td[[0,1]].shape
td[[0,1],[0,1]].shape
td[torch.tensor([True,False])].shape
td[range(2)].shape
td[True].shape
td[0,0,0]
td[5]
td[...,...]
td[torch.zeros(2,2,dtype=torch.long)].shape
td[[[0,1],[0,1]]].shape
td[1.5]
td['a',0]
td.replace(a=torch.zeros(2,3))
td.replace({'zz':torch.zeros(2,3)})
td==td
td=='x'
td==None
td.del_('zz')
td.clone(False)['a'] is td['a']
td.copy()['a'] is td['a']
td.copy()['b'] is td['b']
T({'a': T({'b': torch.zeros(3)}, [])}, [3])['a'].batch_size
T({'a': T({'b': torch.zeros(4)}, [])}, [3])['a'].batch_size
td.contiguous() is td
""".strip().splitlines()
